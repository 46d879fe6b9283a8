"""coophumaneval-v2: each author reads its own half, and no pair without the rule passes the tests."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import pytest

import llm_dec_pomdp
from llm_dec_pomdp.envs.coding.coophumaneval_v2 import problems, rows
from llm_dec_pomdp.types import TaskItem

sys.path.append(str(Path(__file__).parents[3] / "scripts"))
import build_split  # pyright: ignore[reportMissingImports]

ENV_ID = "coophumaneval-v2"
MOST = 0.4  # of the return, for pairs in which aux has no rule


def rewards(pairs: Sequence[tuple[TaskItem, tuple[str, str]]]) -> list[float]:
    """The score of each pair of functions."""
    env = llm_dec_pomdp.make(ENV_ID, split="all")
    return [env.score(item, dict(zip(env.possible_agents, pair, strict=True))).total for item, pair in pairs]


@pytest.mark.every(8)
@pytest.mark.parametrize("name", problems())
def test_no_row_is_solved_by_one_author_alone(name: str) -> None:
    _, _, reasons = build_split.audit(dict(problems()[name]))
    assert not reasons


def test_rows_of_a_problem_are_in_one_split_and_differ_in_the_rule_alone() -> None:
    env = llm_dec_pomdp.make(ENV_ID, split="all")
    of_problem = defaultdict[str, list[TaskItem]](list)
    for item in env.items:
        of_problem[item.id.rpartition("/")[0]].append(item)
    for items in of_problem.values():
        assert len({env.observe(item, "agent_0") for item in items}) == 3
        assert len({(env.observe(item, "agent_1"), item.split) for item in items}) == 1
    splits = [items[0].split for items in of_problem.values()]
    assert splits.count("test") >= 12 and splits.count("train") >= 40


def test_neither_author_reads_the_specification_of_the_other() -> None:
    env = llm_dec_pomdp.make(ENV_ID, split="all")
    for item in env.items:
        aux, main = (env.observe(item, agent) for agent in env.possible_agents)
        assert item.fields["aux_spec"] in aux and item.prompt in main
        assert item.prompt not in aux and item.fields["entry_point"] not in aux
        rule, _, examples = item.fields["aux_spec"].partition("\n\n>>>")
        assert rule not in main and examples.splitlines()[0] not in main


@pytest.mark.every(12)
@pytest.mark.parametrize("item", rows(), ids=lambda item: item.id)
def test_references_receive_all_and_pairs_without_the_rule_little(item: TaskItem) -> None:
    problem, (aux, main) = problems()[item.id.rpartition("/")[0]], item.reference
    stub = f"{item.fields['aux_signature']}\n    return None\n"
    others = [variant["code"] for variant in problem["variants"] if variant["code"] != aux]
    pairs = [(aux, main), (stub, main), (others[0], main), (others[1], main), (aux, problem["published"])]
    whole, *without = rewards([(item, pair) for pair in pairs])
    assert whole == pytest.approx(1.0) and max(without) <= MOST


@pytest.mark.parametrize(
    ("aux", "main", "reward"),
    [
        ("", "", 0.0),
        ("def aux(", "def other(): return 1", 0.0),
        ("def aux(*given): return given", "", 0.0),
        ("gold", "", 0.1),
        ("", "gold", 0.1),
        ("def aux(other_name): return 1", "gold", 0.1),
    ],
)
def test_a_function_needs_the_name_and_the_parameters_of_its_signature(aux: str, main: str, reward: float) -> None:
    item = rows()[0]
    pair = (item.reference[0] if aux == "gold" else aux, item.reference[1] if main == "gold" else main)
    assert rewards([(item, pair)])[0] == pytest.approx(reward, abs=0.17)  # a stub may pass a fifth of the tests


def test_feedback_tells_each_author_about_its_own_function() -> None:
    env = llm_dec_pomdp.make(ENV_ID, split="train", max_turns=2)
    item = env.items[0]
    env.reset(options={"task_id": item.id})
    observations, *_ = env.step(
        {"agent_0": f"{item.fields['aux_signature']}\n    return None", "agent_1": item.reference[1]}
    )
    aux, main = (str(observations[agent]) for agent in env.possible_agents)
    assert "your examples: 0 of" in aux and item.fields["entry_point"] not in aux
    assert "failed: candidate(" in main and "aux(" not in main


def test_rows_of_a_user_name_their_columns_as_the_data_does() -> None:
    row = {
        "main_spec": "Return the sum of `aux(x)` over `xs`.",
        "main_signature": "def total(xs: list[int]) -> int:",
        "aux_signature": "def aux(x: int) -> int:",
        "aux_spec": "Return three times `x`.\n\n>>> aux(2)\n6",
        "entry_point": "total",
        "test": "def check(candidate):\n    assert candidate([1, 2]) == 9\n",
    }
    env = llm_dec_pomdp.make(ENV_ID, tasks=[row])
    env.reset()
    pair = ("def aux(x):\n    return 3 * x", "def total(xs):\n    return sum(map(aux, xs))")
    _, reward, *_ = env.step(dict(zip(env.possible_agents, pair, strict=True)))
    assert set(reward.values()) == {1.0}
    with pytest.raises(ValueError, match="no candidate actions"):
        llm_dec_pomdp.make(ENV_ID, tasks=[row], candidates=True)
