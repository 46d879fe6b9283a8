from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest
from every import CHECKED, make_least, seen
from tasks import Duo

import llm_dec_pomdp
from llm_dec_pomdp.envs.base import TextDecPOMDP
from llm_dec_pomdp.envs.checks import CHECKS, check_env
from llm_dec_pomdp.envs.wrappers import PROTOCOLS, Centralized, Discussion, Sequential, with_protocol
from llm_dec_pomdp.types import Score, TaskItem

ITEMS = tuple(TaskItem(f"t{i}", f"post {i}", reference=("alpha", "beta", "gamma")) for i in range(3))
AGENTS = ["agent_0", "agent_1", "agent_2"]


class Trio(Duo):
    """Three agents, and one point for each that says its reference."""

    declared = replace(Duo.declared, name="trio-v0", roles=("first", "second", "third"), score_range=(0.0, 3.0))


class OnlyOneRevises(Trio):
    """In the second turn only agent_1 is asked."""

    def respond(self, item: TaskItem, actions: Mapping[str, str], score: Score) -> Mapping[str, str]:
        return {"agent_1": "revise"}


def trio(protocol: str = "parallel", **kwargs: Any) -> Any:
    return with_protocol(Trio(ITEMS, **kwargs), protocol)


def discussion(rounds: int, **kwargs: Any) -> Discussion:
    return Discussion(Trio(ITEMS, **kwargs), rounds)


def begin(env: TextDecPOMDP) -> dict[str, str]:
    return env.reset(seed=0, options={"index": 0})[0]


def say(env: TextDecPOMDP, text: str = "draft") -> Any:
    """Every agent says `text` and its own name."""
    return env.step({agent: f"{text} of {agent}" for agent in env.agents})


GOLD = dict(zip(AGENTS, ITEMS[0].reference, strict=True))

# --- sequential -------------------------------------------------------------------------------------------------------


def test_sequential_asks_one_agent_per_phase_and_shows_it_all_earlier_texts_in_order() -> None:
    env = trio("sequential")
    observations = begin(env)
    assert observations["agent_0"] == "post 0\n\nwrite the first part"
    for agent in AGENTS:
        assert [other for other in AGENTS if observations[other]] == [agent]
        assert [other for other in AGENTS if env.asked(other)] == [agent]
        seen = observations[agent]
        observations = say(env)[0]
    assert seen.startswith("post 0\n\nwrite the third part")
    assert seen.index("[first]\ndraft of agent_0") < seen.index("[second]\ndraft of agent_1")


def test_sequential_ignores_the_actions_of_agents_that_are_not_asked() -> None:
    env = trio("sequential")
    begin(env)
    seen = env.step({"agent_0": "alpha", "agent_1": "too early", "agent_2": "much too early"})[0]
    assert "early" not in "".join(seen.values())
    env.step({"agent_0": "too late", "agent_1": "beta", "agent_2": "too early"})
    _, rewards, terminations, _, _ = env.step({"agent_0": "too late", "agent_1": "too late", "agent_2": "gamma"})
    assert rewards == dict.fromkeys(AGENTS, 3.0)
    assert all(terminations.values())


# --- discussion -------------------------------------------------------------------------------------------------------


def test_discussion_of_one_round_shows_the_drafts_of_the_others_and_asks_for_the_final_version() -> None:
    env = discussion(1, max_turns=2)
    assert begin(env)["agent_1"] == "post 0\n\nwrite the second part\n\nWrite a draft first."
    observations = say(env)[0]
    assert all("final version" in text for text in observations.values())
    assert "[first]\ndraft of agent_0" in observations["agent_1"]
    assert "[third]\ndraft of agent_2" in observations["agent_1"]
    assert "draft of agent_1" not in observations["agent_1"]
    observations = say(env)[0]
    assert all("Revise" in text and text.endswith("Write a draft first.") for text in observations.values())


def test_discussion_of_two_rounds_asks_for_another_draft_in_between_and_shows_the_newest() -> None:
    env = discussion(2)
    begin(env)
    assert all("next draft" in text and "final" not in text for text in say(env, "old")[0].values())
    last = say(env, "new")[0]
    assert all("final version" in text for text in last.values())
    assert "new of agent_1" in last["agent_0"]
    assert "old" not in last["agent_0"]


def test_events_say_who_has_read_whom_and_none_follows_the_final_texts() -> None:
    env = discussion(1)
    begin(env)
    say(env)
    read = {(event.agent, event.details["of"]) for event in env.latest.transition.events}
    assert read == {(reader, other) for reader in AGENTS for other in AGENTS if reader != other}
    assert {event.kind for event in env.latest.transition.events} == {"read"}
    say(env)
    assert env.latest.transition.events == ()
    sequence = trio("sequential")
    begin(sequence)
    say(sequence)
    assert [(event.agent, event.details["of"]) for event in sequence.latest.transition.events] == [
        ("agent_1", "agent_0")
    ]


# --- centralized ------------------------------------------------------------------------------------------------------


def test_centralized_has_one_agent_that_plays_all_parts() -> None:
    env = trio("centralized")
    assert env.possible_agents == ["agent_0"]
    assert env.role("agent_0") == "team"
    assert env.facts.parts_per_action == 3
    assert [trio(name).facts.parts_per_action for name in ("parallel", "sequential", "discussion")] == [1, 1, 1]


def test_centralized_shows_what_is_common_once_every_request_and_the_headers() -> None:
    seen = begin(trio("centralized"))["agent_0"]
    assert seen.count("post 0") == 1
    assert [seen.count(f"[{role}] write the {role} part") for role in Trio.declared.roles] == [1, 1, 1]
    assert seen.endswith("each below a line with its name: [first] and [second] and [third].")


@pytest.mark.parametrize(
    ("text", "reward"),
    [
        ("[first]\nalpha\n[second]\nbeta\n[third]\ngamma", 3.0),
        ("[third]\ngamma\n[first]\nalpha\n[second]\nbeta", 3.0),
        ("[FIRST]: alpha\n[Second]: beta\n[third]: gamma", 3.0),
        ("[first]\nalpha\n[third]\ngamma", 2.0),
        ("alpha", 1.0),
        ("alpha\nbeta\ngamma", 0.0),
    ],
)
def test_centralized_splits_the_text_by_headers(text: str, reward: float) -> None:
    env = trio("centralized")
    begin(env)
    assert env.step({"agent_0": text})[1] == {"agent_0": reward}


def test_centralized_code_is_split_by_function() -> None:
    task = llm_dec_pomdp.make("coophumaneval-v0")
    env = Centralized(task)
    item = task.items[0]
    env.reset(options={"task_id": item.id})
    _, rewards, _, _, _ = env.step({"agent_0": "\n\n".join(reversed(item.reference))})
    assert rewards == {"agent_0": pytest.approx(4.0)}


# --- all of them ------------------------------------------------------------------------------------------------------

PHASES = {"parallel": 1, "centralized": 1, "sequential": 3, "discussion": 2}


@pytest.mark.parametrize("protocol", PHASES)
def test_a_solved_turn_ends_the_episode_early(protocol: str) -> None:
    env = trio(protocol, max_turns=2)
    begin(env)
    action = {"agent_0": env.facts.join(ITEMS[0].reference)} if protocol == "centralized" else GOLD
    steps = 0
    while env.agents:
        _, _, terminations, truncations, _ = env.step(action)
        steps += 1
    assert steps == PHASES[protocol]
    assert all(terminations.values())
    assert not any(truncations.values())


@pytest.mark.parametrize("protocol", ["parallel", "sequential", "discussion"])
def test_an_agent_that_the_task_does_not_ask_is_not_asked(protocol: str) -> None:
    env = with_protocol(OnlyOneRevises(ITEMS, max_turns=2), protocol)
    begin(env)
    asked: dict[int, set[str]] = {1: set(), 2: set()}
    while env.agents:
        asked[1 + env.turn // PHASES[protocol]] |= {agent for agent in AGENTS if env.asked(agent)}
        say(env)
    assert asked == {1: set(AGENTS), 2: {"agent_1"}}
    assert env.turn == env.max_turns


@pytest.mark.parametrize("inner", [Sequential, Discussion])
@pytest.mark.parametrize("outer", [Sequential, Discussion, Centralized])
def test_a_protocol_around_a_protocol_pays_once_for_every_scored_turn(outer: Any, inner: Any) -> None:
    env = outer(inner(trio(max_turns=2, turn_reward="each")))
    env.reset(seed=0)
    text = env.facts.join(["alpha", "no", "no"]) if outer is Centralized else "alpha"
    rewards = []
    while env.agents:
        _, paid, *_ = env.step(dict.fromkeys(env.agents, text))
        rewards.append(max(paid.values()))
        assert (rewards[-1] != 0) == (env.latest.transition.score is not None)
    assert len([reward for reward in rewards if reward]) == 2


def test_setting_max_turns_keeps_whole_turns() -> None:
    env = trio("sequential")
    env.max_turns = 4
    assert env.max_turns == 6
    assert env.env.max_turns == 2


@pytest.mark.parametrize("protocol", PHASES)
def test_what_a_protocol_passes_on(protocol: str) -> None:
    task = Trio(ITEMS)
    task.declared = replace(task.declared, judges_code=True)
    env = with_protocol(task, protocol)
    assert (tuple(env.facts.roles), env.facts.reward_range, tuple(env.facts.components)) == (
        Trio.declared.roles,
        (0.0, 3.0),
        ("hits",),
    )
    assert (env.items, env.facts.judges_code) == (ITEMS, True)
    assert env.metadata["name"] == ("trio-v0" if protocol == "parallel" else f"trio-v0/{protocol}")
    assert (env is task) == (protocol == "parallel")


# --- hierarchies ------------------------------------------------------------------------------------------------------


class Commission(Trio):
    """A hierarchy with its own form for one agent."""

    declared = replace(Trio.declared, hierarchical=True)

    def single_agent(self) -> Trio:
        return Trio(self.items[:1])


def test_a_hierarchy_is_played_by_its_agents_or_by_one_alone() -> None:
    task = Commission(ITEMS)
    assert with_protocol(task, "parallel") is task
    single = with_protocol(task, "centralized")
    assert (type(single), single.items) == (Trio, ITEMS[:1])
    assert trio().single_agent() is None


def test_centralized_acts_for_main_and_for_the_sub_agents_that_it_calls() -> None:
    item = TaskItem("a", "Q e1 r0 r1", fields={"facts": "1 2 3 0\n2 3 0 1\n0 0 0 0"})
    env = Centralized(llm_dec_pomdp.make("keys-v0", tasks=[item], entities=4))
    observed, rewards = [begin(env)["agent_0"]], dict[str, float]()
    for text in ("r0", "k1", "r1", "[sub]\nk2", "ANS"):
        observations, rewards, *_ = env.step({"agent_0": text})
        observed.append(observations["agent_0"])
    assert observed[:-1] == ["[main] Q e1 r0 r1", "[sub] S e1 r0", "[main] R e2", "[sub] S e2 r1", "[main] R e0"]
    assert rewards == {"agent_0": 1.0}
    assert (env.facts.hierarchical, env.facts.joint_reward) == (False, True)


@pytest.mark.parametrize(
    ("build", "error", "named"),
    [
        (lambda: discussion(0), ValueError, "0"),
        (lambda: discussion(-1), ValueError, "-1"),
        (lambda: Centralized(Centralized(trio())), ValueError, "trio-v0/centralized"),
        (lambda: trio("centralised"), KeyError, "'centralised'"),
        (lambda: with_protocol(Commission(ITEMS), "sequential"), ValueError, "trio-v0 is a hierarchy"),
        (lambda: with_protocol(Commission(ITEMS), "discussion"), ValueError, "trio-v0 is a hierarchy"),
    ],
)
def test_what_cannot_be_played_is_named(build: Callable[[], Any], error: type[Exception], named: str) -> None:
    with pytest.raises(error, match=named):
        build()


# --- the laws ---------------------------------------------------------------------------------------------------------


@pytest.mark.every(2)
@pytest.mark.parametrize("protocol", PHASES)
@pytest.mark.parametrize("max_turns", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_the_laws_hold_under_every_protocol(protocol: str, max_turns: int) -> None:
    assert check_env(trio(protocol, max_turns=max_turns)) == list(CHECKS)


DEFAULT_RUN = ("tldr-v0", "mbpp-v0")  # one task that is judged by formula, and one by running code


@pytest.mark.slow
@pytest.mark.every(2)
@pytest.mark.parametrize("protocol", sorted(set(PROTOCOLS) - {"parallel"}))
@pytest.mark.parametrize(
    "env_id",
    [pytest.param(env_id, marks=() if env_id in DEFAULT_RUN else pytest.mark.slow) for env_id in CHECKED],
)
def test_the_laws_hold_for_every_registered_task_under_every_protocol(env_id: str, protocol: str) -> None:
    if seen(env_id).facts.hierarchical and protocol != "centralized":
        pytest.skip("refused")
    assert check_env(with_protocol(make_least(env_id), protocol), rows=1) == list(CHECKS)
