"""The open contract: hidden states, chance from seeds, rosters that change, messages, rewards by agent, events."""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pettingzoo.test import parallel_api_test

from llm_dec_pomdp.agents import Request, Sampling, Scripted, Team
from llm_dec_pomdp.algorithms.base import Algorithm
from llm_dec_pomdp.envs import EpisodeError, Task, TaskSource, Transition, check_env
from llm_dec_pomdp.envs.facts import Facts
from llm_dec_pomdp.envs.wrappers import FixedRoster, with_protocol
from llm_dec_pomdp.rollout import Trajectories
from llm_dec_pomdp.seeding import uniforms
from llm_dec_pomdp.training import TrainerConfig, TrainingStep, train
from llm_dec_pomdp.types import Completion, Event, Group, Message, Score, TaskItem

ITEMS = tuple(TaskItem(f"d{i}", f"dungeon {i}") for i in range(3))


class Cave(NamedTuple):
    """Where the treasure is, who is there, what was paid so far, and what is told."""

    left: bool
    there: tuple[str, ...]
    paid: float
    observations: tuple[tuple[str, str | Message], ...]
    turn: int = 0


class Treasure(Task[Cave]):
    """Two look for a treasure on the left or right, hidden by chance; the second calls a third, who knows a tool."""

    declared = Facts(
        name="treasure-v0",
        roles=("leader", "scout", "helper"),
        components=("gold",),
        score_range=(-9.0, 9.0),
        silence_is_lowest=False,
    )
    source = TaskSource("treasure", "acme/treasure", {"train": "train"})

    @property
    def reward_range(self) -> tuple[float, float]:
        return (-1.0, 1.0)

    def initial_state(self, item: TaskItem, seed: int) -> Cave:
        told = (("agent_0", f"{item.prompt}: left or right?"), ("agent_1", "left, right, or call?"))
        return Cave(bool(uniforms(seed, 1)[0] < 0.5), ("agent_0", "agent_1"), 0.0, told)

    def observations(self, state: Cave) -> Mapping[str, str | Message]:
        return dict(state.observations)

    def roster(self, state: Cave) -> Sequence[str]:
        return state.there

    def asks(self, state: Cave) -> Sequence[str]:
        return [agent for agent in state.there if agent != "agent_1" or state.turn % 2 == 0]

    def describe(self, state: Cave) -> Mapping[str, Any]:
        return {"left": state.left}

    def transition(self, state: Cave, actions: Mapping[str, str], seed: int) -> Transition[Cave]:
        wanted = "left" if state.left else "right"
        reward = 1.0 if actions["agent_0"] == wanted else -1.0
        noise = "drip" if uniforms(seed, 1)[0] < 0.5 else "wind"
        there, events = state.there, ()
        told: dict[str, str | Message] = {"agent_0": f"You hear the {noise}.", "agent_1": "The leader dug."}
        if actions.get("agent_1") == "call" and not state.turn:
            there, events = (*there, "agent_2"), (Event("spawn", "agent_2", {"by": "agent_1"}),)
            told["agent_2"] = Message("tool", noise, "ear")
        elif "agent_2" in there:
            there = there[:2]
        paid = state.paid + reward
        following = Cave(state.left, there, paid, tuple(told.items()), state.turn + 1)
        return Transition(following, reward, Score(paid, {"gold": paid}), events=events)


def treasure(kind: type[Treasure] = Treasure, **kwargs: Any) -> Treasure:
    return kind(ITEMS, **{"max_turns": 4, **kwargs})


def play(env: Any, say: Mapping[str, str]) -> list[Any]:
    """All results of an episode in which everybody always says the same."""
    results = [env.reset(seed=5, options={"index": 0})]
    while env.agents:
        results.append(env.step({agent: say.get(agent, "") for agent in env.agents}))
    return results


CALL = {"agent_0": "left", "agent_1": "call"}


def test_every_law_holds_with_hidden_state_chance_and_a_changing_roster() -> None:
    """Under every protocol below."""
    assert "forks" in check_env(treasure())


def test_libraries_accept_a_changing_roster() -> None:
    parallel_api_test(FixedRoster(treasure()), num_cycles=10)
    assert check_env(treasure(max_turns=1))


def test_the_seed_decides_the_hidden_state_and_nothing_shows_it() -> None:
    env, states = treasure(), set[str]()
    for seed in range(20):
        observations, _ = env.reset(seed=seed, options={"index": 0})
        states.add(str(json.loads(env.state())["hidden"]))
        assert observations["agent_0"] == "dungeon 0: left or right?"
    assert states == {"{'left': True}", "{'left': False}"}
    noises = {play(env, {}) and env.history("agent_0")[k].text for k in (2, 4)}
    assert noises <= {"You hear the drip.", "You hear the wind."}


def test_chance_differs_from_episode_to_episode_of_one_seeding() -> None:
    env = treasure()
    env.reset(seed=0, options={"index": 0})
    first = [json.loads(env.state())["hidden"]["left"]]
    for _ in range(30):
        env.reset(options={"index": 0})
        first.append(json.loads(env.state())["hidden"]["left"])
    assert set(first) == {True, False}


def test_who_comes_is_told_and_who_leaves_is_over() -> None:
    env = treasure()
    _, called, left, *_ = play(env, CALL)
    observations, rewards, terminations, _, infos = called
    assert set(observations) == {"agent_0", "agent_1", "agent_2"} == set(rewards) == set(infos)
    assert len(set(rewards.values())) == 1
    assert not any(terminations.values())
    assert left[2] == {"agent_0": False, "agent_1": False, "agent_2": True}
    assert [m.role for m in env.history("agent_2")] == ["tool", "action"]
    assert env.history("agent_2")[0].name == "ear"


def test_an_agent_may_be_told_without_being_asked() -> None:
    env = treasure()
    env.reset(seed=5, options={"index": 0})
    observations, _, _, _, infos = env.step({"agent_0": "left", "agent_1": "right"})
    assert observations["agent_1"] == "The leader dug."
    assert (infos["agent_1"]["asked"], env.asked("agent_1")) == (0.0, False)
    env.step({"agent_0": "left", "agent_1": "is not heard"})
    assert [m.role for m in env.history("agent_1")] == ["observation", "action", "observation", "observation"]


def test_events_and_the_reward_of_the_team_are_on_the_turns() -> None:
    team = Team(dict.fromkeys(treasure().possible_agents, Scripted(lambda agent, history: CALL.get(agent, "x"))))
    [group] = Trajectories().play(treasure(), team, ["d0"], [3], Sampling(), 2)
    first, second = (episode.turns for episode in group.episodes)
    assert first == second  # of a group, chance is shared
    assert [event.kind for turn in first for event in turn.events][:1] == ["spawn"]
    assert {abs(turn.reward) for turn in first} == {1.0}
    played = Trajectories("own").play(treasure(), team, ["d0"], [3], Sampling(), 12)
    assert {turn.reward for episode in played[0].episodes for turn in episode.turns} == {1.0, -1.0}


class Forgetful(Treasure):
    """The leader remembers only what it was told last."""

    def transition(self, state: Cave, actions: Mapping[str, str], seed: int) -> Transition[Cave]:
        return replace(super().transition(state, actions, seed), reset_history=frozenset({"agent_0"}))


@pytest.mark.parametrize(
    "protocol",
    [
        "parallel",
        *(pytest.param(other, marks=pytest.mark.slow) for other in ("sequential", "discussion", "centralized")),
    ],
)
def test_a_history_may_begin_anew(protocol: str) -> None:
    assert "forks" in check_env(with_protocol(treasure(Forgetful), protocol))


def test_who_forgets_is_asked_after_what_it_was_told_last_alone() -> None:
    asked: list[Request] = []

    class Listening(Scripted):
        def generate(self, requests: Sequence[Request], sampling: Sampling) -> list[list[Completion]]:
            asked.extend(requests)
            return [[Completion("x", (1,), (2,), (-0.5,))] * len(request.seeds) for request in requests]

    policy = Listening(lambda agent, history: "x")
    Trajectories().play(treasure(Forgetful), policy, ["d0"], [1], Sampling())
    assert [(len(r.history), r.ids) for r in asked if r.agent == "agent_0"] == [(1, ())] * 4
    assert [(len(r.history), r.ids) for r in asked if r.agent == "agent_1"] == [(1, ()), (4, (1, 2))]


class Selfish(Treasure):
    """The leader alone is paid."""

    declared = replace(Treasure.declared, joint_reward=False)

    def transition(self, state: Cave, actions: Mapping[str, str], seed: int) -> Transition[Cave]:
        step = super().transition(state, actions, seed)
        return replace(step, rewards={agent: step.reward * (agent == "agent_0") for agent in state.there})


def test_agents_may_be_paid_individually_where_that_is_declared() -> None:
    env = treasure(Selfish)
    _, rewards, *_ = play(env, CALL)[1]
    assert (abs(rewards["agent_0"]), rewards["agent_1"], rewards["agent_2"]) == (1.0, 0.0, 0.0)
    assert abs(env.latest.transition.reward) == 1.0
    assert check_env(env)
    [group] = Trajectories().play(
        env, Team(dict.fromkeys(env.possible_agents, Scripted(lambda a, h: "x"))), ["d0"], [0], Sampling()
    )
    assert set(group.episodes[0].turns[0].rewards) == {"agent_0", "agent_1"}


class Learns(Algorithm):
    """Notes what it was given."""

    def update(self, groups: Sequence[Group]) -> dict[str, float]:
        paid = [turn.rewards["agent_1"] for group in groups for episode in group.episodes for turn in episode.turns]
        return {"scout": max(map(abs, paid))}


def test_a_learner_is_given_the_rewards_of_every_agent() -> None:
    env = treasure(Selfish)
    team = Team(dict.fromkeys(env.possible_agents, Scripted(lambda agent, history: "x")))
    steps: list[TrainingStep] = []
    train(Learns(team, Sampling()), env, Sampling(), TrainerConfig(steps=1), 0, steps.append)
    assert [step.metrics for step in steps] == [{"scout": 0.0}]


class Broken(Treasure):
    """A transition that is changed by what the first agent says."""

    def transition(self, state: Cave, actions: Mapping[str, str], seed: int) -> Transition[Cave]:
        step = super().transition(state, actions, seed)
        wrong: dict[str, Any] = {
            "pays": {"rewards": {"agent_0": 1.0, "agent_1": 0.0}},
            "stranger": {"state": step.state._replace(there=("agent_0", "agent_7"))},
            "twice": {"state": step.state._replace(there=("agent_0", "agent_0"))},
            "revives": {"state": step.state._replace(there=("agent_0", "agent_1")[: 1 + state.turn], observations=())},
            "tells": {"state": step.state._replace(observations=(("agent_2", "hello"),))},
            "number": {"state": step.state._replace(observations=(("agent_0", 7),))},
            "forgets": {"reset_history": frozenset({"agent_2"})},
            "says": {"state": step.state._replace(observations=(("agent_0", Message("action", "me")),))},
        }
        return replace(step, **wrong.get(actions["agent_0"], {}))


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("pays", r"\{'agent_0': 1.0, 'agent_1': 0.0\}"),
        ("stranger", r"'agent_7'"),
        ("twice", r"twice"),
        ("tells", r"'agent_2'"),
        ("number", r"'agent_0' is 7"),
        ("forgets", r"'agent_2'"),
        ("says", r"'agent_0' is Message"),
    ],
)
def test_what_no_episode_can_hold_is_named_and_leaves_the_episode_as_it_was(word: str, message: str) -> None:
    env = treasure(Broken)
    env.reset(seed=5, options={"index": 0})
    before = env.state()
    with pytest.raises(EpisodeError, match=message):
        env.step({"agent_0": word, "agent_1": "x"})
    assert env.state() == before
    env.step({"agent_0": "left", "agent_1": "x"})


def test_who_has_left_does_not_come_back() -> None:
    env = treasure(Broken)
    env.reset(seed=5, options={"index": 0})
    env.step({"agent_0": "revives", "agent_1": "x"})
    assert env.agents == ["agent_0"]
    with pytest.raises(EpisodeError, match="'agent_1'"):
        env.step({"agent_0": "revives"})


class Selfless(Selfish):
    """Forgets to pay the scout."""

    def transition(self, state: Cave, actions: Mapping[str, str], seed: int) -> Transition[Cave]:
        return replace(super().transition(state, actions, seed), rewards={"agent_0": 1.0, "agent_2": 1.0})


def test_rewards_for_agents_that_are_gone_are_refused() -> None:
    env = treasure(Selfless)
    env.reset(seed=5, options={"index": 0})
    with pytest.raises(EpisodeError, match=r"'agent_2': 1\.0"):
        env.step({"agent_0": "left", "agent_1": "x"})


class Listed(Treasure):
    """Its state holds a list."""

    def initial_state(self, item: TaskItem, seed: int) -> Cave:
        return super().initial_state(item, seed)._replace(there=["agent_0", "agent_1"])  # type: ignore[arg-type]


def test_a_state_that_can_change_is_refused() -> None:
    with pytest.raises(EpisodeError, match=r"treasure-v0.* a list"):
        treasure(Listed).reset(seed=0)


def test_the_task_of_the_page_keeps_the_laws(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (Path(__file__).parents[2] / "docs" / "tutorials" / "environment.md").read_text()
    [code] = [code for code in re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL) if "Task[Doors]" in code]
    (tmp_path / "tiger_of_the_page.py").write_text(code)
    monkeypatch.syspath_prepend(str(tmp_path))
    kind: Any = importlib.import_module("tiger_of_the_page").Tiger
    assert check_env(kind(max_turns=3))
