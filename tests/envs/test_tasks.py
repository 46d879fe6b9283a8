from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pandas as pd
import pytest

import llm_dec_pomdp
from llm_dec_pomdp.envs.tasks import TaskError, TaskSource, load_tasks
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


def test_items_are_taken_as_they_are_from_any_iterable() -> None:
    items = [TaskItem("a", "x", fields={"answer": "1"}), TaskItem("b", "y", fields={"answer": "2"})]
    assert load_tasks(SOURCE, items) == tuple(items)
    assert load_tasks(SOURCE, iter(items)) == tuple(items)  # type: ignore[arg-type]


def test_a_json_list_is_read(tmp_path: Path) -> None:
    path = tmp_path / "rows.json"
    path.write_text(json.dumps(rows(2), indent=2))
    assert [item.id for item in load_tasks(SOURCE, path)] == ["t0", "t1"]


@pytest.mark.parametrize(
    "content",
    ["ROW0\n\n  \nROW1\n", "\ufeffROW0\nROW1", "ROW0\r\nROW1"],
    ids=["blank lines", "byte order mark", "Windows line ends"],
)
def test_what_stands_around_rows_is_skipped(tmp_path: Path, content: str) -> None:
    path = tmp_path / "rows.jsonl"
    for number, row in enumerate(rows(2)):
        content = content.replace(f"ROW{number}", json.dumps(row))
    path.write_bytes(content.encode())
    assert [item.prompt for item in load_tasks(SOURCE, str(path))] == ["question 0", "question 1"]


@pytest.mark.parametrize(
    "text", ["a\u2028b", "a\u2029b", "a\x85b", "Größe 🙂 שלום"], ids=["LS", "PS", "NEL", "unicode"]
)
def test_odd_characters_are_kept_and_do_not_end_the_row(write: Write, text: str) -> None:
    line = json.dumps({"prompt": text, "answer": "c"}, ensure_ascii=False)
    assert load_tasks(SOURCE, write([line]))[0].prompt == text


@pytest.mark.parametrize(("row", "name"), [({"id": 7}, "7"), ({"task_id": "T/7"}, "T/7"), ({}, "rows/1")])
def test_an_id_is_a_text_of_its_own_or_file_and_row(write: Write, row: dict[str, Any], name: str) -> None:
    assert load_tasks(SOURCE, write([{**row, "prompt": "x", "answer": "y"}]))[0].id == name


# --- fields -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["text", "prompt"])
def test_a_field_has_its_published_name_or_the_suites_own(write: Write, name: str) -> None:
    assert load_tasks(SOURCE, write([{name: "why", "answer": "so"}]))[0].prompt == "why"


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


def test_a_row_that_holds_itself_is_refused_by_number() -> None:
    row: dict[str, Any] = {"prompt": "why"}
    row["more"] = [row]
    with pytest.raises(TaskError, match=r"row 2.*deep"):
        load_tasks(TaskSource("x"), [{"prompt": "so"}, row])


@pytest.mark.parametrize("absent", [None, float("nan"), np.float64("nan"), pd.NA, pd.NaT])
def test_a_value_that_is_null_is_not_there(absent: Any) -> None:
    row = {"text": absent, "prompt": "why", "answer": "so", "id": absent, "split": absent, "reference": absent}
    assert load_tasks(SOURCE, [row]) == (TaskItem("row/1", "why", "", (), {"answer": "so"}),)
    mapped = {"key": absent, "prompt": "why", "answer": "so"}
    assert load_tasks(SOURCE, [mapped], fields={"id": "key"})[0].id == "row/1"


def test_a_file_and_a_data_set_may_have_references_in_some_rows(write: Write) -> None:
    given: list[dict[str, Any]] = [*rows(1, reference=["x", "y"]), {**rows(2)[1], "reference": None, "split": None}]
    wanted = load_tasks(SOURCE, [given[0], rows(2)[1]])
    assert load_tasks(SOURCE, write(given)) == wanted
    assert load_tasks(SOURCE, datasets.Dataset.from_list(given)) == wanted  # type: ignore[arg-type]
    assert load_tasks(SOURCE, pd.DataFrame([given[0], rows(2)[1]])) == wanted  # which fills up with NaN


@pytest.mark.parametrize(("value", "name"), [(np.int64(3), "3"), (3.0, "3"), (np.float64(3), "3"), (np.str_("a"), "a")])
def test_values_of_numpy_are_plain(value: Any, name: str) -> None:
    row = {"id": value, "prompt": np.str_("why"), "answer": "so", "reference": np.array(["x", "y"], dtype=object)}
    [item] = load_tasks(SOURCE, [row])
    assert item == TaskItem(name, "why", "", ("x", "y"), {"answer": "so"})
    assert {type(text) for text in (item.id, item.prompt, *item.reference)} == {str}


# --- what is refused --------------------------------------------------------------------------------------------------


def test_a_path_that_is_no_file(tmp_path: Path) -> None:
    refuse(tmp_path / "none.jsonl", r"none.jsonl'")
    refuse("smaple", r"'smaple'.*'sample'")
    refuse(tmp_path, r"is a folder")
    (tmp_path / "rows.jsonl.gz").touch()
    refuse(tmp_path / "rows.jsonl.gz", r"rows.jsonl.gz' is compressed")


FILES: dict[str, tuple[str, bytes, str]] = {
    "no JSON in a line": ("bad.jsonl", b'{}\n\n{"prompt": "x",', r"bad.jsonl, line 3"),
    "no JSON in a list": ("bad.json", b'[{"prompt": "x"},\n {"prompt" "y"}]', r"bad.json: .*line 2"),
    "one object": ("one.json", b"{}", r"one.json.* dict"),
    "not UTF-8": ("latin.jsonl", b'{"prompt": "\xe9"}', r"latin.jsonl' is not UTF-8"),
    "empty": ("rows.jsonl", b"", r"rows.jsonl: no rows"),
    "blank lines": ("rows.jsonl", b"\n\n", r"rows.jsonl: no rows"),
    "an empty list": ("none.json", b"[]", r"none.json: no rows"),
    "a number without end": ("rows.jsonl", b"{}\n" + b"9" * 5_000, r"rows\.jsonl, line 2"),
    "brackets without end": ("rows.jsonl", b"{}\n" + b"[" * 100_000, r"rows\.jsonl, line 2"),
}


@pytest.mark.parametrize(("name", "content", "message"), FILES.values(), ids=FILES)
def test_a_file_that_holds_no_rows_is_named(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    refuse(path, message)


GOOD = {"prompt": "x", "answer": "y"}
BAD_ROWS: dict[str, tuple[Any, str]] = {
    "missing field": ({"id": "x", "prompt": "q"}, r"(?s)row 2: field 'answer'.*'id', 'prompt'"),
    "missing mapped field": ({"answer": "x"}, r"field 'text' or 'prompt'"),
    "duplicate id": (rows(1)[0], r"row 2: id 't0' is also the id of row 1"),
    **{f"row {row}": (row, r"row 2: is a ") for row in ("[1]", '"text"', "3", "null")},
    **{
        f"{field} {value!r}": ({**GOOD, field: value}, rf"row 2.* field '{field}'")
        for field, values in {
            "answer": (3, ["a"], None),
            "prompt": ("", "  \n"),
            "id": (True, "", 1.5, ["a"]),
            "reference": ("gold", 3, ["a", 3], ["a", None], {"a": "b"}),
            "split": ("dev", 1),
        }.items()
        for value in values
    },
}


@pytest.mark.parametrize(("row", "message"), BAD_ROWS.values(), ids=BAD_ROWS)
def test_a_bad_row_is_named_with_its_field(write: Write, row: Any, message: str) -> None:
    refuse(write([*rows(1), row]), message)


MAPPED: list[tuple[dict[str, str], str]] = [
    ({"promt": "x"}, r"'promt'"),
    ({"id": "key"}, r"'key'.*id"),
    ({"reference": "nope"}, r"'nope'.*reference"),
    ({"split": "nope"}, r"'nope'.*split"),
]
ITEM = TaskItem("a", "why", fields={"answer": "so"})
GIVEN: list[tuple[TaskSource, Any, str]] = [
    (SOURCE, [{"id": "a"}], r"row 1: field 'text' or 'prompt'"),
    (SOURCE, [replace(ITEM, prompt=" ")], r"item 'a': field 'prompt' is ' '"),
    (SOURCE, [replace(ITEM, prompt=None)], r"item 'a': field 'prompt' is None"),  # type: ignore[arg-type]
    (SOURCE, [replace(ITEM, fields={})], r"item 'a': field 'answer'"),
    (SOURCE, [replace(ITEM, fields={"answer": 3})], r"item 'a': field 'answer' is 3"),  # type: ignore[dict-item]
    (SOURCE, [ITEM] * 2, r"'a' is given twice"),
    (SOURCE, [], r"no rows"),
    (TaskSource("own"), "hub", r"own has no published data set"),
    (TaskSource("own", required=("answer",), sample=lambda: [replace(ITEM, fields={})]), None, r"'a': field 'answer'"),
]


@pytest.mark.parametrize(("fields", "named"), MAPPED)
def test_a_mapping_that_fits_no_row_is_named(write: Write, fields: dict[str, str], named: str) -> None:
    refuse(write(rows(1)), named, fields=fields)


def test_a_mapping_for_items_and_embedded_rows_is_refused() -> None:
    refuse([ITEM], r"fields is \{'prompt': 'x'\}", fields={"prompt": "x"})
    with pytest.raises(TaskError, match="fields"):
        llm_dec_pomdp.make("tldr-v0", fields={"prompt": "x"})


@pytest.mark.parametrize(("source", "tasks", "named"), GIVEN)
def test_what_holds_no_tasks_is_named(source: TaskSource, tasks: Any, named: str) -> None:
    with pytest.raises(TaskError, match=named):
        load_tasks(source, tasks) if tasks is not None else load_tasks(source)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"entry_point": "f()"}, r"field 'entry_point': is 'f\(\)'"),
        ({"test": "def check(c:\n"}, r"field 'test': .*line 1"),
        ({"test": "assert f(1) == 1"}, r"field 'test': .*`check"),
        ({"test": "async def check(c):\n    assert c(1)"}, r"field 'test': .*`check"),
        ({"test": "def check(c):\n    c(1)"}, r"field 'test': .*assert"),
        ({"test": "def check(c):\n    if c(1) == 1:\n        assert True"}, r"field 'test': .*assert that can fail"),
    ],
)
def test_a_problem_that_nothing_can_solve_is_refused(write: Write, more: dict[str, str], message: str) -> None:
    good = {"id": "p", "prompt": "def f(x):\n", "entry_point": "f", "test": "def check(c):\n    assert c(1) == 1\n"}
    assert len(llm_dec_pomdp.make("humaneval-v0", tasks=str(write([good]))).items) == 1
    with pytest.raises(TaskError, match=rf"rows\.jsonl, task 'p', {message}"):
        llm_dec_pomdp.make("humaneval-v0", tasks=str(write([{**good, **more}])))


def test_a_task_set_of_which_nothing_is_left_is_refused() -> None:
    fields = {"entry_point": "f", "test": "def check(c):\n    assert c(1) == 1\n"}
    with pytest.raises(TaskError, match=r"coophumaneval-v1 .*'CoopHumanEval/12'"):
        llm_dec_pomdp.make("coophumaneval-v1", tasks=[TaskItem("CoopHumanEval/12", "def f(x):\n", fields=fields)])


# --- splits -----------------------------------------------------------------------------------------------------------


def test_splits_that_are_not_there_or_mixed_are_explained(write: Write) -> None:
    refuse(write(rows(1)), r"split 'tset'.* test\?", split="tset")
    refuse(write([*rows(1, split="train"), rows(2)[1]]), r"row 't1' has no split")
    refuse(write(rows(2, split="train")), r"split 'test' has none of the 2 rows", split="test")


@pytest.mark.parametrize(("split", "ids"), [(None, ["t0"]), ("train", ["t0"]), ("test", ["t1"]), ("all", ["t0", "t1"])])
def test_a_split_of_a_file_with_splits(write: Write, split: str | None, ids: list[str]) -> None:
    path = write([{**row, "split": name} for row, name in zip(rows(2), ("train", "test"), strict=True)])
    assert [item.id for item in load_tasks(SOURCE, path, split)] == ids


def test_a_file_without_splits_gives_all_rows(write: Write) -> None:
    assert len(load_tasks(SOURCE, write(rows(9)))) == 9


def ids_of(path: Path, split: str) -> set[str]:
    return {item.id for item in load_tasks(SOURCE, path, split)}


def test_hashed_splits_are_disjoint_complete_and_about_four_to_one(write: Write) -> None:
    path = write(rows(1000))
    train, test = ids_of(path, "train"), ids_of(path, "test")
    assert train.isdisjoint(test)
    assert train | test == {f"t{i}" for i in range(1000)}
    assert 0.15 < len(test) / 1000 < 0.25


def test_hashed_splits_of_rows_without_id_do_not_depend_on_the_order(write: Write) -> None:
    plain = [{"prompt": f"question {i}", "answer": "yes"} for i in range(100)]
    first, second = write(plain, "one/rows.jsonl"), write(plain[::-1], "two/rows.jsonl")
    tests = [{item.prompt for item in load_tasks(SOURCE, path, "test")} for path in (first, second)]
    assert tests[0] == tests[1]


@pytest.mark.parametrize("count", range(2, 30))
def test_a_few_rows_without_splits_have_both(write: Write, count: int) -> None:
    train, test = (ids_of(write(rows(count)), split) for split in ("train", "test"))
    assert train
    assert test
    assert train.isdisjoint(test)
    assert len(train | test) == count


def test_rows_with_one_prompt_are_in_one_split(write: Write) -> None:
    path = write([{**row, "prompt": "the same"} for row in rows(3)])
    assert ids_of(path, "train") == {"t0", "t1", "t2"}
    refuse(path, r"split 'test' has none of the 3 rows", split="test")


def test_hashed_splits_are_pinned(write: Write) -> None:
    assert ids_of(write(rows(12)), "test") == {"t6", "t10", "t11"}


# --- the hub ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """A hub with two training rows and one test row; the list records what was asked for."""
    asked: list[tuple[str, str]] = []

    def load_dataset(
        name: str, config: str | None = None, *, split: str, trust_remote_code: bool
    ) -> list[dict[str, str]]:
        assert not trust_remote_code
        asked.append((name, split))
        part = split.partition("[")[0]
        return [{"text": f"{part} {i}", "answer": "a", "id": f"{part}{i}"} for i in range(2 if part == "train" else 1)]

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    return asked


@pytest.mark.parametrize(
    ("split", "asked_for", "prompts"),
    [
        (None, ["train[:2]"], ["train 0", "train 1"]),
        ("train", ["train[:2]"], ["train 0", "train 1"]),
        ("test", ["test[:1]"], ["test 0"]),
        ("all", ["train[:2]", "test[:1]"], ["train 0", "train 1", "test 0"]),
    ],
)
def test_the_published_slices_are_asked_for_and_become_items(
    hub: list[tuple[str, str]], split: str, asked_for: list[str], prompts: list[str]
) -> None:
    items = load_tasks(SOURCE, "hub", split)
    assert hub == [("acme/toy", part) for part in asked_for]
    assert [item.prompt for item in items] == prompts
    assert all(
        item == TaskItem(item.prompt.replace(" ", ""), item.prompt, item.prompt[:-2], (), {"answer": "a"})
        for item in items
    )


def test_a_hub_that_cannot_be_reached_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def nobody(api: Any, name: str, **options: Any) -> None:
        asked.append(name)
        raise OSError("no network")

    monkeypatch.setattr("huggingface_hub.HfApi.dataset_info", nobody)
    monkeypatch.setattr("huggingface_hub.HfApi.hf_hub_download", nobody)
    refuse("hub", r"'acme/toy' \(train\[:2\]\) could not be loaded: .*tasks='sample'")
    assert asked == ["acme/toy"]


def test_a_sample_of_another_package_is_a_file_of_its_own(write: Write) -> None:
    source = TaskSource("own", sample=write([{"prompt": "p", "id": "a"}]))
    assert [item.id for item in load_tasks(source)] == ["a"]


def test_bad_rows_of_the_hub_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets, "load_dataset", lambda name, config, **options: [{"text": "x"}])
    refuse("hub", r"acme/toy, row 1: field 'answer'")
