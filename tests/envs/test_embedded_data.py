"""The rows that come with the package, and files of real rows that load by path."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import llm_dec_pomdp
from llm_dec_pomdp.envs.tasks import TaskError
from llm_dec_pomdp.envs.text_task import TextTask
from llm_dec_pomdp.types import TaskItem

EMBEDDED = {"tldr-v0": 64, "arxiv-v0": 48, "coophumaneval-v0": 48, "humaneval-v0": 164}
ids = pytest.mark.parametrize("env_id", EMBEDDED)


def make(env_id: str, split: str = "all") -> TextTask:
    return llm_dec_pomdp.make(env_id, split=split)


def words(item: TaskItem) -> int:
    """Length of the post without its header, or of the abstract."""
    return len(item.prompt.rpartition("\n\nPOST: ")[2].split())


@ids
def test_rows_are_many_and_no_two_are_alike(env_id: str) -> None:
    items = make(env_id).items
    assert len(items) >= EMBEDDED[env_id]
    assert len({item.id for item in items}) == len(items)
    assert len({" ".join(item.prompt.lower().split()) for item in items}) == len(items)


def test_humaneval_is_whole_and_split_as_published() -> None:
    for split, numbers in (("all", range(164)), ("test", range(32)), ("train", range(33, 163))):
        assert [item.id for item in make("humaneval-v0", split).items] == [f"HumanEval/{i}" for i in numbers]


@ids
def test_splits_are_disjoint_and_not_empty_and_train_is_the_default(env_id: str) -> None:
    train, test = (make(env_id, split).items for split in ("train", "test"))
    assert llm_dec_pomdp.make(env_id).items == train
    assert train
    assert test
    assert {item.id for item in train}.isdisjoint(item.id for item in test)
    assert env_id == "humaneval-v0" or len(train) + len(test) == len(make(env_id).items)


@pytest.mark.parametrize(("env_id", "least", "most"), [("tldr-v0", 60, 300), ("arxiv-v0", 100, 300)])
def test_source_texts_have_the_published_length(env_id: str, least: int, most: int) -> None:
    assert {item.id: words(item) for item in make(env_id).items if not least <= words(item) <= most} == {}


def functions(source: str) -> list[str]:
    return [node.name for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)]


def test_every_problem_of_ours_has_five_asserts_and_a_pair_of_one_function_each() -> None:
    for item in make("coophumaneval-v0").items:
        name = item.fields["entry_point"]
        asserts = [node for node in ast.walk(ast.parse(item.fields["test"])) if isinstance(node, ast.Assert)]
        assert len(asserts) >= 5, item.id
        assert [functions(text) for text in item.reference] == [["aux"], [name]], item.id
        assert functions(item.prompt)[-1] == name, item.id


def test_no_problem_of_ours_shares_its_entry_point_with_humaneval() -> None:
    ours, theirs = ({i.fields["entry_point"] for i in make(e).items} for e in ("coophumaneval-v0", "humaneval-v0"))
    assert ours.isdisjoint(theirs)


# --- files ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "count"), [("scitldr_train", 1992), ("scitldr_test", 618)])
def test_abstracts_load_by_path_with_a_mapping(shared_data: Path, name: str, count: int) -> None:
    path = shared_data / "data" / f"{name}.jsonl"
    env = llm_dec_pomdp.make("arxiv-v0", tasks=path, fields={"prompt": "abstract", "id": "paper_id"})
    assert len(env.items) == count


def test_abstracts_without_a_mapping_say_which_field_to_map(shared_data: Path) -> None:
    with pytest.raises(TaskError, match=r"'abstract'.*--field prompt=NAME"):
        llm_dec_pomdp.make("arxiv-v0", tasks=shared_data / "data" / "scitldr_test.jsonl")


@pytest.mark.parametrize("name", ["tldr", "arxiv", "coophumaneval"])
def test_an_embedded_file_loads_by_path_too(name: str) -> None:
    path = Path(llm_dec_pomdp.__file__).parent / "data" / f"{name}.jsonl"
    by_path = llm_dec_pomdp.make(f"{name}-v0", tasks=path, split="all")
    assert by_path.items == llm_dec_pomdp.make(f"{name}-v0", split="all").items
