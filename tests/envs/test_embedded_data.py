from __future__ import annotations

import ast

import pytest

import llm_dec_pomdp
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
def test_there_are_enough_rows(env_id: str) -> None:
    assert len(make(env_id).items) >= EMBEDDED[env_id]


def test_humaneval_is_whole() -> None:
    assert [item.id for item in make("humaneval-v0").items] == [f"HumanEval/{i}" for i in range(164)]


def test_humaneval_splits_are_the_published_ones() -> None:
    assert [item.id for item in make("humaneval-v0", "test").items] == [f"HumanEval/{i}" for i in range(32)]
    assert [item.id for item in make("humaneval-v0", "train").items] == [f"HumanEval/{i}" for i in range(33, 163)]


@ids
def test_the_default_split_is_train(env_id: str) -> None:
    assert llm_dec_pomdp.make(env_id).items == make(env_id, "train").items


@ids
def test_splits_are_disjoint_and_not_empty(env_id: str) -> None:
    train, test = ({item.id for item in make(env_id, split).items} for split in ("train", "test"))
    assert train
    assert test
    assert train.isdisjoint(test)


@ids
def test_splits_have_no_prompt_in_common(env_id: str) -> None:
    train, test = ({item.prompt for item in make(env_id, split).items} for split in ("train", "test"))
    assert train.isdisjoint(test)


@pytest.mark.parametrize("env_id", ["tldr-v0", "arxiv-v0", "coophumaneval-v0"])
def test_splits_are_complete(env_id: str) -> None:
    assert len(make(env_id, "train").items) + len(make(env_id, "test").items) == len(make(env_id).items)


@ids
def test_ids_are_unique(env_id: str) -> None:
    items = make(env_id).items
    assert len({item.id for item in items}) == len(items)


@ids
def test_no_two_prompts_are_equal(env_id: str) -> None:
    items = make(env_id).items
    assert len({" ".join(item.prompt.lower().split()) for item in items}) == len(items)


@ids
def test_every_reference_earns_the_maximum(env_id: str) -> None:
    env = make(env_id)
    earned: dict[str, float] = {}
    for item in env.items:
        env.reset(options={"task_id": item.id})
        _, rewards, terminations, _, _ = env.step(env.gold(item))
        assert all(terminations.values())
        earned[item.id] = rewards["agent_0"]
    assert earned == pytest.approx(dict.fromkeys(earned, env.max_return), abs=1e-6)


@pytest.mark.parametrize(("env_id", "least", "most"), [("tldr-v0", 60, 300), ("arxiv-v0", 100, 300)])
def test_source_texts_have_the_published_length(env_id: str, least: int, most: int) -> None:
    assert {item.id: words(item) for item in make(env_id).items if not least <= words(item) <= most} == {}


def test_posts_have_the_published_form() -> None:
    odd = [
        item.id
        for item in make("tldr-v0").items
        if not (
            item.prompt.startswith("SUBREDDIT: r/") and "\n\nTITLE: " in item.prompt and "\n\nPOST: " in item.prompt
        )
    ]
    assert odd == []


def asserts(source: str) -> int:
    return sum(isinstance(node, ast.Assert) for node in ast.walk(ast.parse(source)))


def test_every_problem_of_ours_has_five_asserts() -> None:
    counts = {item.id: asserts(item.fields["test"]) for item in make("coophumaneval-v0").items}
    assert {name: count for name, count in counts.items() if count < 5} == {}


def functions(source: str) -> list[str]:
    return [node.name for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)]


def test_every_gold_helper_is_one_function_named_aux() -> None:
    assert {item.id for item in make("coophumaneval-v0").items if functions(item.reference[0]) != ["aux"]} == set()


def test_every_gold_main_is_one_function_named_after_the_problem() -> None:
    items = make("coophumaneval-v0").items
    assert {item.id for item in items if functions(item.reference[1]) != [item.fields["entry_point"]]} == set()


def test_every_problem_ends_in_its_entry_point() -> None:
    assert {i.id for i in make("coophumaneval-v0").items if functions(i.prompt)[-1] != i.fields["entry_point"]} == set()


def test_no_problem_of_ours_shares_its_entry_point_with_humaneval() -> None:
    ours, theirs = ({i.fields["entry_point"] for i in make(e).items} for e in ("coophumaneval-v0", "humaneval-v0"))
    assert ours.isdisjoint(theirs)
