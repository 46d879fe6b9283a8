"""The reward of the code tasks: by hand, for golden pairs, and what their agents are asked for."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from tasks import references

import llm_dec_pomdp
from llm_dec_pomdp.envs.coding import reward
from llm_dec_pomdp.sandbox import Job, Verdict, cached_verdicts
from llm_dec_pomdp.types import Score, TaskItem

# --- reward, by hand --------------------------------------------------------------------------------------------------

ITEM = TaskItem(
    "t",
    'def main(x):\n    """Return twice x, plus one."""\n',
    fields={"entry_point": "main", "test": "def check(c):\n    assert c(0) == 1\n    assert c(2) == 5\n"},
)
AUX = "def aux(x):\n    return 2 * x\n"
GOOD = "def main(x):\n    return aux(x) + 1\n"


def judged(aux: str, main: str, item: TaskItem = ITEM) -> Score:
    return reward.score(item, reward.Program.find(aux, main, item.fields["entry_point"]), cached_verdicts)


def unused(jobs: Sequence[Job]) -> list[Verdict]:
    raise AssertionError(f"nothing is to be run, not {jobs}")


HAND = {
    "nothing": ("", "", (0.0, 0.0, 0.0, 0.0)),
    "prose": ("I would rather not.", "Me neither.", (0.0, 0.0, 0.0, 0.0)),
    "only aux": (AUX, "", (0.4, 0.0, 0.0, 0.0)),
    "aux under another name": ("def helper(x):\n    return x\n", "", (0.0, 0.0, 0.0, 0.0)),
    "main without return": (AUX, "def main(x):\n    print(x)\n", (0.4, 0.0, 0.0, 0.0)),
    "main under another name": (AUX, "def solution(x):\n    return x\n", (0.4, 0.0, 0.0, 0.0)),
    "main with a syntax error": (AUX, "def main(x):\n    return (x\n", (1.0, 0.0, 0.0, 0.0)),
    "aux with a syntax error": ("def aux(x):\n    return (x\n", GOOD, (1.0, 0.0, 0.0, 0.0)),
    "no aux, wrong": ("", "def main(x):\n    return x\n", (0.6, 0.5, 0.0, 0.0)),
    "no aux, half right": ("", "def main(x):\n    return 1\n", (0.6, 0.5, 0.5, 0.0)),
    "no aux, right": ("", "def main(x):\n    return 2 * x + 1\n", (0.6, 0.5, 1.0, 0.0)),
    "aux unused, right": (AUX, "def main(x):\n    return 2 * x + 1\n", (1.0, 0.5, 1.0, 0.0)),
    "aux used, right": (AUX, GOOD, (1.0, 0.5, 1.0, 1.5)),
    "aux used, half right": ("def aux(x):\n    return x\n", GOOD, (1.0, 0.5, 0.5, 1.5)),
    "aux used, all wrong": (AUX, "def main(x):\n    return aux(x) - 1\n", (1.0, 0.5, 0.0, 0.0)),
    "aux without return, called": (
        "def aux(x):\n    pass\n",
        "def main(x):\n    y = aux(x)\n    return 2 * x + 1\n",
        (0.6, 0.5, 1.0, 1.5),
    ),
    "wrapper": ("def aux(x):\n    return 2 * x + 1\n", "def main(x):\n    return aux(x)\n", (1.0, 0.5, 1.0, 0.5)),
    "wrapper of two lines": (
        "def aux(x):\n    return 2 * x + 1\n",
        "def main(x):\n    y = aux(x)\n    return y\n",
        (1.0, 0.5, 1.0, 0.5),
    ),
    "dropped": (AUX, "def main(x):\n    aux(x)\n    return 2 * x + 1\n", (1.0, 0.5, 1.0, 1.0)),
    "aux missing but called": ("", GOOD, (0.6, 0.5, 0.0, 0.0)),
    "aux raises": ("def aux(x):\n    return 1 / 0\n", GOOD, (1.0, 0.5, 0.0, 0.0)),
    "loading raises": ("def aux(x=1 / 0):\n    return x\n", "def main(x):\n    return 1\n", (1.0, 0.5, 0.0, 0.0)),
    "fenced": (f"Here:\n```python\n{AUX}```", f"```python\n{GOOD}```\nDone.", (1.0, 0.5, 1.0, 1.5)),
}


@pytest.mark.parametrize(("aux", "main", "values"), HAND.values(), ids=HAND)
def test_reward_by_hand(aux: str, main: str, values: tuple[float, ...]) -> None:
    score = judged(aux, main)
    assert tuple(score.components.values()) == pytest.approx(values)
    assert score.total == pytest.approx(sum(values))


@pytest.mark.parametrize("case", ["nothing", "only aux", "main with a syntax error"])
def test_nothing_is_run_before_the_gates_are_passed(case: str) -> None:
    aux, main, _ = HAND[case]
    assert reward.score(ITEM, reward.Program.find(aux, main, "main"), unused).notes["outcome"] == "not run"


def test_a_helper_of_the_problem_is_in_scope_of_program_and_tests() -> None:
    item = TaskItem(
        "t",
        'def given(x):\n    return x + 1\n\n\ndef main(x):\n    """Use given."""\n',
        fields={"entry_point": "main", "test": "def check(c):\n    assert c(1) == given(1)\n"},
    )
    assert judged(AUX, "def main(x):\n    return given(aux(x)) - x\n", item).total == 4.0


def test_an_import_of_the_problem_is_in_scope() -> None:
    item = dataclasses.replace(ITEM, prompt=f"import math\n\n\n{ITEM.prompt}")
    assert judged(AUX, "def main(x):\n    return math.floor(aux(x)) + 1\n", item).total == 4.0


def test_a_tab_in_a_string_reaches_the_tests() -> None:
    item = dataclasses.replace(
        ITEM, fields={**ITEM.fields, "test": "def check(c):\n    assert c('a\\tb') == ['a', 'b']\n"}
    )
    assert judged("", 'def main(x):\n    return x.split("\t")\n', item).components["tests"] == 1.0


@pytest.mark.parametrize(("main", "earned"), [(GOOD, 1.0), ("def main(x):\n    return 0\n", 0.0)])
def test_a_row_whose_asserts_only_mark_wrong_answers_pays_for_right_ones(main: str, earned: float) -> None:
    test = "def check(c):\n    if c(2) == 5:\n        assert True\n    else:\n        assert False\n"
    item = dataclasses.replace(ITEM, fields={**ITEM.fields, "test": test})
    assert judged(AUX, main, item).components["tests"] == earned


def test_counts_are_diagnostics_and_failed_asserts_are_notes() -> None:
    score = judged("def aux(x):\n    return x\n", GOOD)
    assert score.diagnostics == {"tests_passed": 1.0, "tests_total": 2.0}
    assert "c(2) == 5: assertion failed" in score.notes["detail"]


@pytest.mark.parametrize("outcome", ["timeout", "died", "load_error", "unsupported"])
def test_what_is_the_programs_fault_is_no_nan(outcome: Any) -> None:
    score = reward.score(ITEM, reward.Program(AUX, GOOD), lambda jobs: [Verdict(outcome, passed=0, total=2)])
    assert score.total == 1.5


# --- the environments -------------------------------------------------------------------------------------------------


def test_golden_pairs(golden: Callable[[str], list[dict[str, Any]]]) -> None:
    env = llm_dec_pomdp.make("humaneval-v0", split="all")
    rows = golden("humaneval")
    assert len(rows) >= 126
    earned: dict[tuple[str, str], float] = {}
    for row in rows:
        env.reset(options={"task_id": row["task_id"]})
        texts = dict(zip(env.agents, row["completions"], strict=True))
        earned[row["task_id"], row["variant"]] = env.step(texts)[1]["agent_0"]
    assert earned == pytest.approx({(row["task_id"], row["variant"]): row["reward"] for row in rows}, abs=1e-6)


def test_infra_error_is_nan_for_everybody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "llm_dec_pomdp.envs.coding.base.cached_verdicts", lambda jobs: [Verdict("infra_error") for _ in jobs]
    )
    env = llm_dec_pomdp.make("coophumaneval-v0", max_turns=2)
    env.reset(seed=0)
    _, rewards, terminations, _, infos = env.step(references(env, env.item))
    assert [math.isnan(reward) for reward in rewards.values()] == [True, True]
    assert set(terminations.values()) == {False}
    assert math.isnan(infos["agent_0"]["reward/tests"])


def test_aux_is_asked_for_aux_and_main_for_the_entry_point() -> None:
    env = llm_dec_pomdp.make("coophumaneval-v0")
    observations, _ = env.reset(seed=0)
    assert all(env.item.prompt.strip() in observation for observation in observations.values())
    assert [env.role(agent) for agent in env.agents] == ["aux", "main"]
    assert "helper function named `aux`" in observations["agent_0"]
    assert f"Write the function `{env.item.fields['entry_point']}`" in observations["agent_1"]
    assert "do not define it yourself" in observations["agent_1"]


def test_many_programs_are_judged_at_once_with_the_same_result() -> None:
    envs = [llm_dec_pomdp.make("coophumaneval-v0") for _ in range(6)]
    for index, env in enumerate(envs):
        env.reset(options={"index": index})
    actions = [
        references(env, env.item) if index % 2 else {"agent_0": AUX, "agent_1": ""} for index, env in enumerate(envs)
    ]
    steps = llm_dec_pomdp.envs.step_many(envs, actions)
    assert [step[1]["agent_0"] for step in steps] == pytest.approx([0.4, 4.0] * 3)
