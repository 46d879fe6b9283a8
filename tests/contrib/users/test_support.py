"""support-v0: users played by hand, and the optimum by an enumeration of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

import pytest

import llm_dec_pomdp
from llm_dec_pomdp.agents import Sampling, Scripted
from llm_dec_pomdp.contrib.users.support import PERSONAS, manual, reply
from llm_dec_pomdp.rollout import Trajectories
from llm_dec_pomdp.types import TaskItem

NEEDS: Mapping[str, Mapping[str, bool]] = {
    goal: dict(zip(("roaming", "data", "pack"), values, strict=True)) for goal, values in manual(3).items()
}
GOAL, LATER = list(NEEDS)[:2]


def row(persona: str, wrong: Sequence[str], **fields: str) -> dict[str, str]:
    """A row in which these settings, or the pack, have another value than the goal needs."""
    now = {name: "on" if value != (name in wrong) else "off" for name, value in NEEDS[GOAL].items()}
    phone, account = f"roaming {now['roaming']} data {now['data']}", f"pack {now['pack']}"
    return {
        "id": "a",
        "prompt": "Help.",
        "persona": persona,
        "goal": GOAL,
        "later": GOAL,
        "phone": phone,
        "account": account,
        **fields,
    }


def make_support(rows: Mapping[str, str], **options: Any) -> Any:
    env = llm_dec_pomdp.make("support-v0", tasks=[rows], split="all", **options)
    env.reset()
    return env


def ask(env: Any, text: str) -> tuple[str, float]:
    """Let the assistant act; return what it observes next, and the reward."""
    observations, rewards, *_ = env.step({"agent_0": text})
    return observations["agent_0"], rewards["agent_0"]


def set_to(goal: str, *names: str) -> str:
    return " ".join(f"SET {name} {'on' if NEEDS[goal][name] else 'off'}" for name in names)


# --- users ------------------------------------------------------------------------------------------------------------


def test_a_calm_user_answers_and_does_all_that_it_is_asked() -> None:
    env = make_support(row("calm", ["roaming", "data", "pack"]))
    assert f"User: I want to {GOAL}." in env.history("agent_0")[0].text
    observed, reward = ask(env, "What is on your phone?")
    assert observed.startswith("User: My phone: roaming o")
    assert reward == pytest.approx(-0.1)
    pack = "pack_on" if NEEDS[GOAL]["pack"] else "pack_off"
    assert ask(env, f"{pack}()")[0].startswith(pack.replace("_", " "))
    assert ask(env, "Please " + set_to(GOAL, "data", "roaming"))[1] == 1.0
    assert not env.agents
    assert env.last_score.total == pytest.approx(0.8)
    assert env.last_score.diagnostics == {"satisfaction": 1.0, "texts": 3.0}


def test_a_forgetful_user_remembers_the_first_request() -> None:
    env = make_support(row("forgetful", ["roaming", "data"]))
    assert ask(env, set_to(GOAL, "data", "roaming"))[0].startswith("User: " + set_to(GOAL, "data") + "\n")
    assert ask(env, set_to(GOAL, "roaming"))[1] == 1.0


def test_a_hurried_user_says_no_goal_and_leaves_after_three_texts() -> None:
    env = make_support(row("hurried", ["roaming"]))
    assert f"I want to {GOAL}" not in env.history("agent_0")[0].text
    assert ask(env, "goal? phone?")[0].startswith(f"User: I want to {GOAL}. My phone: roaming o")
    ask(env, "Wait, please.")
    assert ask(env, "pack_on()")[1] == pytest.approx(-0.1)
    assert not env.agents
    assert env.last_score.components == {"solved": 0.0, "turns": pytest.approx(-0.3)}


def test_an_undecided_user_changes_its_goal_after_the_second_text() -> None:
    env = make_support(row("undecided", [], later=LATER))
    assert (
        ask(env, "pack_on()" if NEEDS[GOAL]["pack"] else "pack_off()")[1] < 0
    )  # the first goal is reached, and does not count
    assert "I have changed my mind" not in env.history("agent_0")[-1].text
    assert f"User: I have changed my mind: I want to {LATER}." in ask(env, "pack_off()")[0]


@pytest.mark.parametrize(
    ("texts", "satisfaction"),
    [
        ([], 1.0),
        (["phone?"], 1.0),
        (["phone?", "phone?"], 0.75),
        (["goal?"], 0.75),  # it was in the first words
        (["Hello!", "goal? phone?"], 0.5),
        ([set_to(GOAL, "data")], 0.75),  # has this value
        (["goal?", "goal?", "goal?", "goal?", "goal?"], 0.0),
    ],
)
def test_satisfaction_falls_with_annoyances_and_the_return_with_texts(texts: list[str], satisfaction: float) -> None:
    env = make_support(row("calm", ["roaming"]))
    for text in texts:
        ask(env, text)
    ask(env, set_to(GOAL, "roaming"))
    assert env.last_score.total == pytest.approx(1 - 0.1 * len(texts))
    assert env.last_score.diagnostics["satisfaction"] == satisfaction


# --- the seat of the user ---------------------------------------------------------------------------------------------


def test_a_policy_in_the_seat_of_the_user_observes_what_the_script_observes() -> None:
    env = make_support(row("calm", ["roaming"]), user="agent")
    assert [env.asked(agent) for agent in env.agents] == [True, False]
    observations, rewards, *_ = env.step({"agent_0": set_to(GOAL, "roaming"), "agent_1": ""})
    assert rewards == {"agent_0": 0.0, "agent_1": 0.0}
    assert reply(observations["agent_1"]) == set_to(GOAL, "roaming")
    observations, rewards, *_ = env.step({"agent_0": "", "agent_1": "I would rather talk. " + 60 * "so "})
    assert observations["agent_0"].startswith("User: I would rather talk. so so ")
    assert observations["agent_0"].split().count("so") == 36
    env.step({"agent_0": "Please.", "agent_1": ""})
    _, rewards, *_ = env.step({"agent_0": "", "agent_1": "LEAVE"})
    assert rewards["agent_1"] == pytest.approx(-0.1)
    assert not env.agents


# --- values -----------------------------------------------------------------------------------------------------------


def played(env: Any, script: str) -> list[Any]:
    ids = [item.id for item in env.items]
    return list(Trajectories().play(env, Scripted(env.script(script)), ids, [0] * len(ids), Sampling()))


@pytest.mark.parametrize("user", ["scripted", "agent"])
def test_the_optimal_assistant_has_the_best_return_of_each_persona(user: str) -> None:
    env: Any = llm_dec_pomdp.make("support-v0", goals=2, user=user)
    tables = env.measure(played(env, "optimal"))
    assert {name: tables[f"{name} user"]["return"] for name in PERSONAS} == pytest.approx(env.best_returns())


def best_sum(env: Any, rows: Sequence[TaskItem], texts: tuple[str, ...] = ()) -> float:
    """The highest sum of returns over rows with one history, by playing all sequences of actions from the start."""
    groups: dict[str, list[TaskItem]] = {}
    total = 0.0
    for item in rows:
        env.reset(options={"task_id": item.id})
        for text in texts:
            env.step({"agent_0": text})
        if env.agents:
            groups.setdefault(env.history("agent_0")[-1].text, []).append(item)
        else:
            total += env.last_score.total
    return total + sum(
        max(best_sum(env, of, (*texts, text)) for text in env.choices("agent_0")) for of in groups.values()
    )


@pytest.mark.parametrize("texts", [1, pytest.param(2, marks=pytest.mark.slow)])
@pytest.mark.parametrize("persona", PERSONAS)
def test_an_enumeration_of_all_policies_finds_the_same_best_returns(persona: str, texts: int) -> None:
    env: Any = llm_dec_pomdp.make("support-v0", goals=2, max_turns=texts)
    rows = [item for item in env.items if item.fields["persona"] == persona]
    assert best_sum(env, rows) / len(rows) == pytest.approx(env.best_returns()[persona])


def test_a_careful_assistant_satisfies_more_and_receives_less() -> None:
    env: Any = llm_dec_pomdp.make("support-v0", goals=2)
    final = {name: [group.episodes[0].final for group in played(env, name)] for name in env.facts.scripts}
    satisfied = {name: fmean(score.diagnostics["satisfaction"] for score in of) for name, of in final.items()}
    returns = {name: fmean(score.total for score in of) for name, of in final.items()}
    assert satisfied["careful"] > 0.95 > satisfied["optimal"]
    assert returns["careful"] < returns["optimal"] == pytest.approx(env.facts.optimum)
