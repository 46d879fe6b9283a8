"""classeval-v0: rows, rewards of good and degenerate teams, turns with a tester and a reviewer."""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

import llm_dec_pomdp
from llm_dec_pomdp.contrib.software.classes import AUDIT, candidates, own_rows
from llm_dec_pomdp.contrib.software.classeval import ClassEval
from llm_dec_pomdp.contrib.software.program import dealt, gold_of, key_of, spec_of
from llm_dec_pomdp.contrib.software.reward import job, passed_in_all
from llm_dec_pomdp.envs.base import TextDecPOMDP
from llm_dec_pomdp.envs.tasks import TaskError
from llm_dec_pomdp.envs.wrappers import Choices, with_protocol
from llm_dec_pomdp.sandbox import Verdict, default_pool
from llm_dec_pomdp.types import TaskItem

MOST_WITHOUT_SKILL = 0.4 * 4


@pytest.fixture
def published(shared_data: Path) -> ClassEval:
    path = shared_data / "data" / "classeval" / "classeval.json"
    if not path.exists():
        pytest.skip(f"needs the published ClassEval as {path}")
    return ClassEval(path, split="all")


def played(env: TextDecPOMDP, index: int, texts: Sequence[str]) -> float:
    env.reset(seed=0, options={"index": index})
    _, rewards, *_ = env.step(dict(zip(env.possible_agents, texts, strict=True)))
    return rewards["agent_0"]


def stubs(item: TaskItem, constant: object = None) -> list[str]:
    """Return the reference with bodies that return a constant."""
    trees = [ast.parse(text) for text in item.reference]
    for tree in trees:
        for node in tree.body:
            assert isinstance(node, ast.FunctionDef)
            node.body = [ast.Return(ast.parse(repr(constant), mode="eval").body)]
    return [ast.unparse(ast.fix_missing_locations(tree)) for tree in trees]


def test_there_are_forty_classes_whose_methods_need_each_other() -> None:
    rows = own_rows()
    assert len(rows) >= 40
    assert sum(row.split == "test" for row in rows) >= 10
    assert len({row.fields["class_name"] for row in rows}) == len(rows)
    for row in rows:
        spec = spec_of(row)
        owners = dealt(key_of(spec), 2)
        gold = gold_of(spec.solution, spec.class_name)
        assert any(f".{b}(" in gold[a] for a in spec.names for b in spec.names if owners[a] != owners[b]), row.id


@pytest.mark.parametrize("index", [0, 8])
def test_teams_without_skill_earn_little(index: int) -> None:
    env = ClassEval(split="all")
    item = env.items[index]
    everything = "\n".join(item.reference)
    assert played(env, index, item.reference) == 4.0
    for texts in (stubs(item), [everything] * 2, [everything, ""], [item.reference[0], ""], ["", ""]):
        assert played(env, index, texts) < MOST_WITHOUT_SKILL


def test_a_fence_in_a_docstring_does_not_cut_a_method() -> None:
    env = ClassEval()
    texts = [
        re.sub(r"^(def .*:)$", r'\1\n    """Do it.\n\n```\nexample\n```\n    """', text, flags=re.MULTILINE)
        for text in env.items[0].reference
    ]
    assert played(env, 0, texts) == played(env, 0, [f"So:\n```python\n{text}```" for text in texts]) == 4.0


def test_what_candidates_receive() -> None:
    env = llm_dec_pomdp.make("classeval-v0", split="all", candidates=True)
    assert isinstance(env, Choices)
    item = env.items[0]
    first, second = candidates()[item.id]
    letter_of = {text: letter for letter, text in env.lettered(item, "agent_0").items()}
    received = {kind: played(env, 0, [letter_of[text], second["gold"]]) for kind, text in first.items()}
    assert received["gold"] == received["alone"] == received["fallback"] == 4.0
    assert 1 < received["off by one"] < 4
    assert max(received["stub"], received["other signature"]) < MOST_WITHOUT_SKILL


def test_authors_read_the_docstrings_of_their_own_methods() -> None:
    env = ClassEval(split="all")
    first, second = env.reset(options={"index": 0})[0].values()
    assert "Add an amount above 0" in first and "Add an amount above 0" not in second
    assert "Withdraw here and deposit" in second and "Withdraw here and deposit" not in first
    for text in (first, second, *ClassEval(split="all", assign="chosen").reset(options={"index": 0})[0].values()):
        assert "def transfer(self, other, amount):" in text and "def deposit(self, amount):" in text
    [everything] = with_protocol(env, "centralized").reset(options={"index": 0})[0].values()
    assert "Add an amount above 0" in everything and "Withdraw here and deposit" in everything


def test_an_author_that_works_for_both_receives_little() -> None:
    env = ClassEval(split="all")
    first, second = env.items[0].reference
    hidden = textwrap.indent(second.replace("def ", "def hidden_"), " " * 4)
    given = "    if isinstance(amount, tuple):\n        return locals()['hidden_' + amount[0]](self, *amount[1:])\n"
    worker = first.replace("def deposit(self, amount):\n", f"def deposit(self, amount):\n{hidden}\n{given}")
    calls = (
        "def record(self, kind, amount):\n    return self.deposit(('record', kind, amount))\n"
        "def transfer(self, other, amount):\n    return self.deposit(('transfer', other, amount))\n"
    )
    spec = spec_of(env.items[0])
    [verdict] = default_pool().run([job(spec, env.written(env.items[0], {"agent_0": worker, "agent_1": calls}).bodies)])
    assert verdict.outcome == "passed"  # the class works, but not each author's methods
    assert played(env, 0, [worker, calls]) < MOST_WITHOUT_SKILL
    assert played(env, 0, [first, ""]) < MOST_WITHOUT_SKILL


def test_a_verdict_without_tests_passes_none() -> None:
    held = Verdict("passed", 1, 2, tests=("A.a", "A.b"), cases=(True, True))
    assert passed_in_all([held, held]) == replace(held, passed=2)
    half = Verdict("failed", 1, 2, ("A.b: no",), tests=("A.a", "A.b"), cases=(True, False))
    assert passed_in_all([held, half]) == half
    assert passed_in_all([half, Verdict("timeout", notes=("too long",))]).cases == (False, False)


def test_methods_that_cannot_be_part_of_a_class_fail_its_tests() -> None:
    env = ClassEval(split="all")
    first, second = env.items[0].reference
    deep = second.replace("len(self.history)", "+".join(["1"] * 900))
    for text in (second.replace("    return len", "    break\n    return len"), deep):
        assert played(env, 0, [first, text]) < MOST_WITHOUT_SKILL


def test_a_method_that_two_write_counts_for_neither() -> None:
    env = ClassEval(split="all", assign="chosen")
    first, second = env.items[0].reference
    copied = f"{first}\n{second}"
    assert played(env, 0, [first, copied]) < MOST_WITHOUT_SKILL
    assert env.last_score is not None
    assert env.last_score.diagnostics["overlap"] == pytest.approx(3 / 5)


def test_tester_and_reviewer_are_heard() -> None:
    env = llm_dec_pomdp.make("classeval-v0", split="all", tester=True, reviewer=True)
    observations, _ = env.reset(options={"index": 0})
    first, second = env.item.reference[:2]
    assert observations["agent_3"] == ""
    broken = first.replace("+=", "-=")
    asserts = "a = BankAccount(1); assert a.deposit(2) == 3\nassert BankAccount(4).balance == 4"
    observations, *_ = env.step({"agent_0": broken, "agent_1": second, "agent_2": asserts, "agent_3": "x"})
    assert [agent for agent, text in observations.items() if text] == ["agent_3"]
    assert "self.balance -= amount" in observations["agent_3"]
    observations, rewards, *_ = env.step(dict.fromkeys(env.agents, "[author 1]\nAdd, do not subtract."))
    assert rewards["agent_0"] == 0
    assert "The reviewer: Add, do not subtract." in observations["agent_0"]
    assert "The reviewer" not in observations["agent_1"]
    assert re.search(r"1 of 2 asserts of the tester failed", observations["agent_2"])
    _, rewards, terminations, *_ = env.step({"agent_0": first, "agent_1": second, "agent_2": "", "agent_3": ""})
    assert terminations["agent_0"]
    assert env.last_score is not None
    assert env.last_score.total == 4.0


def test_feedback_is_about_ones_own_methods() -> None:
    env = ClassEval(split="all", max_turns=2)
    first, second = env.items[0].reference
    env.reset(options={"index": 0})
    observations, *_ = env.step({"agent_0": first.replace("+=", "-="), "agent_1": second})
    assert "BankAccountTestDeposit.test_1" in observations["agent_0"]
    assert "BankAccountTestDeposit" not in observations["agent_1"]


def test_a_solution_that_fails_its_tests_is_found() -> None:
    [row, *_] = own_rows()
    wrong = dict(row.fields) | {"solution": row.fields["solution"].replace("+=", "-=")}
    env = ClassEval([{"id": "mine", "prompt": row.prompt, **wrong}], split="all")
    with pytest.raises(TaskError, match="mine"):
        env.try_rows()


def test_published_rows_are_read_and_audited(published: ClassEval) -> None:
    assert len(published.items) == 82
    assert not {item.id for item in published.items} & AUDIT.keys()
    assert played(published, 0, published.items[0].reference) == 4.0


@pytest.mark.slow
def test_every_published_solution_earns_the_maximum(published: ClassEval) -> None:
    rows = enumerate(published.items)
    earned = {item.id: played(published, index, item.reference) for index, item in rows}
    assert {name for name, reward in earned.items() if reward < 4} == set()


@pytest.mark.slow
def test_constants_receive_little_on_published_rows(published: ClassEval) -> None:
    rows = enumerate(published.items)
    received = [max(played(published, n, stubs(item, answer)) for answer in (True, False, [])) for n, item in rows]
    assert max(received) < MOST_WITHOUT_SKILL
