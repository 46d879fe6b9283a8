from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import datasets
import pytest

import llm_dec_pomdp
from llm_dec_pomdp.envs.coding.coophumaneval import CoopHumanEval
from llm_dec_pomdp.envs.coding.humaneval import HumanEval
from llm_dec_pomdp.envs.tasks import TaskError, TaskSource, load_tasks
from llm_dec_pomdp.envs.writing.arxiv import ArXiv
from llm_dec_pomdp.envs.writing.tldr import TLDR
from llm_dec_pomdp.types import TaskItem

SOURCE = TaskSource(
    "toy", "acme/toy", {"train": "train[:2]", "test": "test[:1]"}, ("prompt", "answer"), fields={"prompt": "text"}
)
Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """`write(rows)` -> path of a JSONL file; text rows are written as they are."""

    def file(rows: list[Any], name: str = "rows.jsonl") -> Path:
        lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return path

    return file


def rows(count: int, **more: Any) -> list[dict[str, Any]]:
    return [{"id": f"t{i}", "prompt": f"question {i}", "answer": "yes", **more} for i in range(count)]


def refuse(tasks: Any, message: str, **kwargs: Any) -> None:
    with pytest.raises(TaskError, match=message):
        load_tasks(SOURCE, tasks, **kwargs)


# --- what is read -----------------------------------------------------------------------------------------------------


def test_a_row_becomes_an_item(write: Write) -> None:
    path = write([{"id": "a", "prompt": "why", "answer": "so", "split": "train", "reference": ["x", "y"], "junk": 1}])
    assert load_tasks(SOURCE, path) == (TaskItem("a", "why", "train", ("x", "y"), {"answer": "so"}),)


def test_a_path_may_be_text(write: Write) -> None:
    assert len(load_tasks(SOURCE, str(write(rows(3))))) == 3


def test_items_are_taken_as_they_are() -> None:
    items = [TaskItem("a", "x", fields={"answer": "1"}), TaskItem("b", "y", fields={"answer": "2"})]
    assert load_tasks(SOURCE, items) == tuple(items)


def test_items_without_a_needed_field_are_refused() -> None:
    with pytest.raises(TaskError, match="'a': field 'answer' is missing"):
        load_tasks(SOURCE, [TaskItem("a", "x")])


def test_items_with_the_same_id_are_refused() -> None:
    with pytest.raises(TaskError, match="'a' is given twice"):
        load_tasks(SOURCE, [TaskItem("a", "x", fields={"answer": "1"})] * 2)


def test_a_json_list_is_read(tmp_path: Path) -> None:
    path = tmp_path / "rows.json"
    path.write_text(json.dumps(rows(2), indent=2))
    assert [item.id for item in load_tasks(SOURCE, path)] == ["t0", "t1"]


def test_blank_lines_are_skipped(write: Write) -> None:
    assert len(load_tasks(SOURCE, write([*rows(1), "", "  ", {**rows(2)[1]}]))) == 2


def test_a_byte_order_mark_is_skipped(tmp_path: Path) -> None:
    path = tmp_path / "bom.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps(rows(1)[0]).encode())
    assert load_tasks(SOURCE, path)[0].prompt == "question 0"


def test_windows_line_ends_are_read(tmp_path: Path) -> None:
    path = tmp_path / "crlf.jsonl"
    path.write_bytes(b"\r\n".join(json.dumps(row).encode() for row in rows(2)))
    assert len(load_tasks(SOURCE, path)) == 2


@pytest.mark.parametrize("separator", ["\u2028", "\u2029", "\x85"], ids=["LS", "PS", "NEL"])
def test_unicode_line_separators_within_a_text_do_not_end_the_row(write: Write, separator: str) -> None:
    line = json.dumps({"prompt": f"a{separator}b", "answer": "c"}, ensure_ascii=False)
    assert load_tasks(SOURCE, write([line]))[0].prompt == f"a{separator}b"


def test_unicode_text_is_kept(write: Write) -> None:
    path = write([json.dumps({"prompt": "Größe 🙂", "answer": "שלום"}, ensure_ascii=False)])
    assert load_tasks(SOURCE, path)[0].prompt == "Größe 🙂"


def test_integer_ids_become_text(write: Write) -> None:
    assert load_tasks(SOURCE, write([{"id": 7, "prompt": "x", "answer": "y"}]))[0].id == "7"


def test_task_id_is_an_id_too(write: Write) -> None:
    assert load_tasks(SOURCE, write([{"task_id": "T/7", "prompt": "x", "answer": "y"}]))[0].id == "T/7"


def test_rows_without_id_are_named_by_file_and_row(write: Write) -> None:
    path = write([{"prompt": "x", "answer": "y"}, {"prompt": "z", "answer": "y"}], "mine.jsonl")
    assert [item.id for item in load_tasks(SOURCE, path)] == ["mine/1", "mine/2"]


# --- fields -----------------------------------------------------------------------------------------------------------


def test_the_published_name_of_a_field_works(write: Write) -> None:
    assert load_tasks(SOURCE, write([{"text": "why", "answer": "so"}]))[0].prompt == "why"


def test_the_suites_own_name_of_a_mapped_field_works(write: Write) -> None:
    assert load_tasks(SOURCE, write([{"prompt": "why", "answer": "so"}]))[0].prompt == "why"


def test_the_suites_own_name_of_a_mapped_id_works(write: Write) -> None:
    source = TaskSource("toy", "acme/toy", {}, fields={"id": "task_id"})
    assert load_tasks(source, write([{"id": "a", "prompt": "why"}]))[0].id == "a"


def test_a_callers_mapping_wins(write: Write) -> None:
    path = write([{"text": "no", "question": "why", "answer": "so"}])
    assert load_tasks(SOURCE, path, fields={"prompt": "question"})[0].prompt == "why"


def test_id_split_and_reference_can_be_mapped(write: Write) -> None:
    path = write([{"key": "k", "part": "test", "gold": ["g", "h"], "prompt": "x", "answer": "y"}])
    [item] = load_tasks(SOURCE, path, "test", {"id": "key", "split": "part", "reference": "gold"})
    assert (item.id, item.split, item.reference) == ("k", "test", ("g", "h"))


def test_mapping_a_field_that_the_task_does_not_use_is_explained(write: Write) -> None:
    refuse(write(rows(1)), r"\['promt'\], which this task does not use; it uses prompt, answer", fields={"promt": "x"})


def test_a_mapped_id_that_is_missing_is_explained(write: Write) -> None:
    refuse(write(rows(1)), r"row 1: field 'key', which is to be the id, is missing", fields={"id": "key"})


# --- what is refused --------------------------------------------------------------------------------------------------


def test_a_path_that_does_not_exist(tmp_path: Path) -> None:
    refuse(tmp_path / "none.jsonl", r"none.jsonl' does not exist; give 'sample', 'hub', or the path")


def test_a_misspelt_keyword_counts_as_a_path() -> None:
    refuse("smaple", r"'smaple' does not exist; give 'sample'")


def test_a_folder(tmp_path: Path) -> None:
    refuse(tmp_path, r"is a folder; give")


def test_wrong_json_names_file_and_line(write: Write) -> None:
    refuse(write([*rows(1), "", '{"prompt": "x",'], "bad.jsonl"), r"bad.jsonl, line 3: not valid JSON")


def test_wrong_json_in_a_list_names_line_and_the_other_format(tmp_path: Path) -> None:
    path = tmp_path / "bad.json"
    path.write_text('[{"prompt": "x"},\n {"prompt" "y"}]')
    refuse(path, r"bad.json: not valid JSON: .*line 2.*named .jsonl")


def test_a_json_file_with_one_object(tmp_path: Path) -> None:
    path = tmp_path / "one.json"
    path.write_text("{}")
    refuse(path, r"holds one dict; a .json task file is a list")


def test_a_file_that_is_not_utf_8(tmp_path: Path) -> None:
    path = tmp_path / "latin.jsonl"
    path.write_bytes(b'{"prompt": "\xe9"}')
    refuse(path, r"latin.jsonl' is not UTF-8 text .*convert it")


@pytest.mark.parametrize("row", ["[1]", '"text"', "3", "null"])
def test_a_row_that_is_no_object(write: Write, row: str) -> None:
    refuse(write([*rows(1), row]), r"row 2: holds a .*every row is an object with fields prompt, answer")


def test_a_missing_field_names_row_field_and_next_step(write: Write) -> None:
    path = write([*rows(1), {"id": "x", "prompt": "q"}])
    refuse(path, r"(?s)row 2: field 'answer' is missing; the row has 'id', 'prompt'.*--field answer=NAME")


def test_a_missing_mapped_field_names_both_names(write: Write) -> None:
    refuse(write([{"answer": "x"}]), r"field 'text' or 'prompt' is missing")


@pytest.mark.parametrize(("value", "kind"), [(3, "int"), (None, "NoneType"), (["a"], "list")])
def test_a_field_of_the_wrong_type(write: Write, value: Any, kind: str) -> None:
    refuse(write([{"prompt": "x", "answer": value}]), rf"row 1, field 'answer': is a {kind} .*must be text")


@pytest.mark.parametrize("value", ["", "  \n"])
def test_an_empty_text(write: Write, value: str) -> None:
    refuse(write([{"prompt": value, "answer": "y"}]), r"row 1, field 'prompt': is empty; give it text")


def test_a_duplicate_id_names_both_rows(write: Write) -> None:
    refuse(write([*rows(2), rows(1)[0]]), r"row 3: id 't0' stands in row 1 already")


@pytest.mark.parametrize("value", [True, None, "", 1.5, ["a"]])
def test_an_id_that_is_no_name(write: Write, value: Any) -> None:
    refuse(write([{"id": value, "prompt": "x", "answer": "y"}]), r"field 'id': is .*text or an integer")


@pytest.mark.parametrize("value", ["gold", 3, ["a", 3], {"a": "b"}])
def test_a_reference_that_is_no_list_of_texts(write: Write, value: Any) -> None:
    refuse(write(rows(1, reference=value)), r"row 1, field 'reference': .*list of texts")


@pytest.mark.parametrize("value", ["dev", None, 1])
def test_a_split_value_that_does_not_exist(write: Write, value: Any) -> None:
    refuse(write(rows(1, split=value)), r"row 1, field 'split': is .*'train' or 'test'")


@pytest.mark.parametrize("content", ["", "\n\n"])
def test_an_empty_file(write: Write, content: str) -> None:
    refuse(write([content]), r"rows.jsonl: no rows")


def test_an_empty_json_list(tmp_path: Path) -> None:
    path = tmp_path / "none.json"
    path.write_text("[]")
    refuse(path, r"no rows; a task set needs at least one")


@pytest.mark.parametrize("line", ["9" * 5_000, "[" * 100_000], ids=["a number without end", "brackets without end"])
def test_what_python_cannot_read_is_named_too(write: Write, line: str) -> None:
    refuse(write([*rows(1), line]), r"rows\.jsonl, line 2: not valid JSON")


@pytest.mark.parametrize("name", ["reference", "split"])
def test_a_mapped_field_that_no_row_has_is_not_passed_over(write: Write, name: str) -> None:
    refuse(write(rows(1)), f"row 1: field 'nope', which is to be the {name}, is missing", fields={name: "nope"})


def test_a_mapping_for_rows_that_need_none_is_refused() -> None:
    refuse(
        [TaskItem("a", "why", fields={"answer": "so"})],
        r"fields=\{'prompt': 'x'\} names columns",
        fields={"prompt": "x"},
    )
    with pytest.raises(TaskError, match="names columns of files"):
        llm_dec_pomdp.make("tldr-v0", fields={"prompt": "x"})


@pytest.mark.parametrize(
    ("item", "message"),
    [
        ({"id": "a"}, r"the given items hold a dict \(\{'id': 'a'\}\); give TaskItem objects"),
        (TaskItem("a", " ", fields={"answer": "so"}), r"item 'a': field 'prompt' is ' '; give it text"),
        (TaskItem("a", None, fields={"answer": "so"}), r"item 'a': field 'prompt' is None"),  # type: ignore[arg-type]
        (TaskItem("a", "why"), r"item 'a': field 'answer' is missing; toy needs"),
        (TaskItem("a", "why", fields={"answer": 3}), r"item 'a': field 'answer' is 3"),  # type: ignore[dict-item]
    ],
)
def test_a_bad_item_is_named(item: Any, message: str) -> None:
    refuse([item], message)


def test_items_may_come_from_a_generator() -> None:
    assert len(load_tasks(SOURCE, (TaskItem(str(i), "why", fields={"answer": "so"}) for i in range(3)))) == 3  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"entry_point": "f()"}, r"field 'entry_point': is 'f\(\)'; it must be the name of a function"),
        ({"test": "def check(c:\n"}, r"field 'test': does not parse \(line 1"),
        ({"test": "assert f(1) == 1"}, r"field 'test': has no function `check\(candidate\)`"),
        ({"test": "async def check(c):\n    assert c(1)"}, r"field 'test': has no function `check"),
        ({"test": "def check(c):\n    c(1)"}, r"field 'test': has no assert"),
    ],
)
def test_a_problem_that_nothing_can_solve_is_refused(write: Write, more: dict[str, str], message: str) -> None:
    good = {"id": "p", "prompt": "def f(x):\n", "entry_point": "f", "test": "def check(c):\n    assert c(1) == 1\n"}
    assert len(llm_dec_pomdp.make("humaneval-v0", tasks=str(write([good]))).items) == 1
    with pytest.raises(TaskError, match=rf"rows\.jsonl, task 'p', {message}"):
        llm_dec_pomdp.make("humaneval-v0", tasks=str(write([{**good, **more}])))


def test_a_task_set_of_which_nothing_is_left_is_refused() -> None:
    fields = {"entry_point": "f", "test": "def check(c):\n    assert c(1) == 1\n"}
    item = TaskItem("CoopHumanEval/12", "def f(x):\n", fields=fields)
    with pytest.raises(TaskError, match=r"coophumaneval-v1 leaves out .*'CoopHumanEval/12'"):
        llm_dec_pomdp.make("coophumaneval-v1", tasks=[item])


def test_no_items() -> None:
    refuse([], r"the given items: no rows")


# --- splits -----------------------------------------------------------------------------------------------------------


def test_an_unknown_split_is_answered_with_the_nearest(write: Write) -> None:
    refuse(write(rows(1)), r"split 'tset' does not exist; did you mean test\?", split="tset")


def test_rows_with_and_without_split_do_not_mix(write: Write) -> None:
    refuse(write([*rows(1, split="train"), rows(2)[1]]), r"row 't1' has no split although other rows have one")


def test_a_split_without_rows_is_explained(write: Write) -> None:
    refuse(write(rows(2, split="train")), r"no rows in split 'test' among 2; use split='all'", split="test")


def test_a_file_with_splits_gives_its_training_rows(write: Write) -> None:
    path = write([{**row, "split": name} for row, name in zip(rows(2), ("train", "test"), strict=True)])
    assert [item.id for item in load_tasks(SOURCE, path)] == ["t0"]


@pytest.mark.parametrize(("split", "ids"), [("train", ["t0"]), ("test", ["t1"]), ("all", ["t0", "t1"])])
def test_a_split_of_a_file_with_splits(write: Write, split: str, ids: list[str]) -> None:
    path = write([{**row, "split": name} for row, name in zip(rows(2), ("train", "test"), strict=True)])
    assert [item.id for item in load_tasks(SOURCE, path, split)] == ids


def test_a_file_without_splits_gives_all_rows(write: Write) -> None:
    assert len(load_tasks(SOURCE, write(rows(9)))) == 9


def ids_of(path: Path, split: str) -> set[str]:
    return {item.id for item in load_tasks(SOURCE, path, split)}


def test_hashed_splits_are_disjoint_and_complete(write: Write) -> None:
    path = write(rows(200))
    assert ids_of(path, "train").isdisjoint(ids_of(path, "test"))
    assert ids_of(path, "train") | ids_of(path, "test") == {f"t{i}" for i in range(200)}


def test_hashed_splits_are_about_four_to_one(write: Write) -> None:
    assert 0.15 < len(ids_of(write(rows(1000)), "test")) / 1000 < 0.25


def test_hashed_splits_do_not_depend_on_the_order(write: Write) -> None:
    shuffled = rows(200)
    random.Random(0).shuffle(shuffled)
    assert ids_of(write(rows(200)), "test") == ids_of(write(shuffled, "shuffled.jsonl"), "test")


def test_hashed_splits_stay_when_rows_are_added(write: Write) -> None:
    assert ids_of(write(rows(100)), "test") <= ids_of(write(rows(200), "more.jsonl"), "test")


def test_hashed_splits_of_rows_without_id_do_not_depend_on_the_order(write: Write) -> None:
    plain = [{"prompt": f"question {i}", "answer": "yes"} for i in range(100)]
    one, two = write(plain, "one/rows.jsonl"), write(plain[::-1], "two/rows.jsonl")
    tests = [{item.prompt for item in load_tasks(SOURCE, path, "test")} for path in (one, two)]
    assert tests[0] == tests[1]


def test_hashed_splits_are_pinned(write: Write) -> None:
    assert ids_of(write(rows(12)), "test") == {"t6", "t10", "t11"}


# --- the hub ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """A hub with two training rows and one test row; the list records what was asked for."""
    asked: list[tuple[str, str]] = []

    def load_dataset(name: str, config: str | None = None, *, split: str) -> list[dict[str, str]]:
        asked.append((name, split))
        part = split.partition("[")[0]
        return [{"text": f"{part} {i}", "answer": "a", "id": f"{part}{i}"} for i in range(2 if part == "train" else 1)]

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    return asked


def test_hub_rows_become_items(hub: list[tuple[str, str]]) -> None:
    assert load_tasks(SOURCE, "hub")[0] == TaskItem("train0", "train 0", "train", (), {"answer": "a"})


@pytest.mark.parametrize(
    ("split", "asked_for"),
    [
        (None, ["train[:2]"]),
        ("train", ["train[:2]"]),
        ("test", ["test[:1]"]),
        ("all", ["train[:2]", "test[:1]"]),
    ],
)
def test_the_published_slices_are_asked_for(hub: list[tuple[str, str]], split: str, asked_for: list[str]) -> None:
    load_tasks(SOURCE, "hub", split)
    assert hub == [("acme/toy", part) for part in asked_for]


def test_all_of_the_hub_carries_its_splits(hub: list[tuple[str, str]]) -> None:
    assert [item.split for item in load_tasks(SOURCE, "hub", "all")] == ["train", "train", "test"]


def test_hub_without_network_gives_the_next_step(monkeypatch: pytest.MonkeyPatch) -> None:
    def offline(*args: Any, **kwargs: Any) -> None:
        raise ConnectionError("Couldn't reach the hub")

    monkeypatch.setattr(datasets, "load_dataset", offline)
    refuse(
        "hub", r"(?s)'acme/toy' \(train\[:2\]\) could not be loaded: ConnectionError: .*HF_HUB_OFFLINE.*tasks='sample'"
    )


def test_a_source_without_published_data_says_so() -> None:
    with pytest.raises(TaskError, match="own has no published data set; use tasks='sample'"):
        load_tasks(TaskSource("own"), "hub")


def test_a_sample_of_another_package_is_a_file_of_its_own(write: Write) -> None:
    source = TaskSource("own", sample=write([{"prompt": "p", "id": "a"}]))
    assert [item.id for item in load_tasks(source)] == ["a"]


def test_a_sample_made_by_a_function_is_checked() -> None:
    source = TaskSource("own", required=("prompt", "answer"), sample=lambda: [TaskItem("a", "p")])
    with pytest.raises(TaskError, match="item 'a': field 'answer' is missing"):
        load_tasks(source)


def test_a_bad_hub_row_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets, "load_dataset", lambda name, config, split: [{"text": "x"}])
    refuse("hub", r"acme/toy, row 1: field 'answer' is missing")


def test_an_empty_hub_slice_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets, "load_dataset", lambda name, config, split: [])
    refuse("hub", r"acme/toy: no rows")


def test_a_real_data_set_is_read_in_its_slices(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {
        part: str(write([{"text": f"{part} {i}", "answer": "a"} for i in range(4)], f"{part}.jsonl"))
        for part in ("train", "test")
    }
    local = {
        part: datasets.Dataset.from_list([json.loads(row) for row in open_lines(file)]) for part, file in files.items()
    }

    def load_dataset(name: str, config: str | None = None, *, split: str) -> datasets.Dataset:
        found = re.fullmatch(r"(\w+)\[:(\d+)\]", split)
        assert found is not None
        return local[found[1]].select(range(int(found[2])))

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    assert [item.prompt for item in load_tasks(SOURCE, "hub", "all")] == ["train 0", "train 1", "test 0"]


def open_lines(path: str) -> list[str]:
    return Path(path).read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize(
    ("env", "name", "splits"),
    [
        (TLDR, "trl-lib/tldr", {"train": "train[:1000]", "test": "test[:1000]"}),
        (ArXiv, "OpenMLRL/arXiv_abstract", {"train": "train[:1000]", "test": "val[:1000]"}),
        (HumanEval, "openai/openai_humaneval", {"train": "test[33:163]", "test": "test[:32]"}),
        (CoopHumanEval, "OpenMLRL/CoopHumanEval", {"train": "test[16:]", "test": "test[:16]"}),
    ],
)
def test_published_names_and_slices(env: Any, name: str, splits: dict[str, str]) -> None:
    assert (env.source.hub, dict(env.source.hub_splits)) == (name, splits)


# --- real files -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "count"), [("scitldr_train", 1992), ("scitldr_test", 618)])
def test_abstracts_load_by_path_with_a_mapping(shared_data: Path, name: str, count: int) -> None:
    path = shared_data / "data" / f"{name}.jsonl"
    env = llm_dec_pomdp.make("arxiv-v0", tasks=path, fields={"prompt": "abstract", "id": "paper_id"})
    assert len(env.items) == count


def test_abstracts_without_a_mapping_say_which_field_to_map(shared_data: Path) -> None:
    with pytest.raises(TaskError, match=r"'abstract'.*--field prompt=NAME"):
        llm_dec_pomdp.make("arxiv-v0", tasks=shared_data / "data" / "scitldr_test.jsonl")


@pytest.mark.parametrize("env_id", ["coophumaneval-v0", "humaneval-v0"])
@pytest.mark.parametrize(
    ("name", "count", "first"), [("coophumaneval", 82, "CoopHumanEval/0"), ("mbpp_collab", 257, "MBPP/0")]
)
def test_problems_load_by_path(shared_data: Path, env_id: str, name: str, count: int, first: str) -> None:
    env = llm_dec_pomdp.make(env_id, tasks=shared_data / "data" / f"{name}.jsonl")
    assert (len(env.items), env.items[0].id) == (count, first)


@pytest.mark.parametrize("name", ["tldr", "arxiv", "coophumaneval"])
def test_an_embedded_file_loads_by_path_too(name: str) -> None:
    path = Path(llm_dec_pomdp.__file__).parent / "data" / f"{name}.jsonl"
    by_path = llm_dec_pomdp.make(f"{name}-v0", tasks=path, split="all")
    assert by_path.items == llm_dec_pomdp.make(f"{name}-v0", split="all").items
