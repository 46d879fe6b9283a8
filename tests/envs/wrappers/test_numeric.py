from __future__ import annotations

import json
import pickle
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from every import make_least
from gymnasium import spaces
from pettingzoo.test import parallel_api_test, parallel_seed_test
from tasks import WORDS, Duo, Leaver, duo

import llm_dec_pomdp
from llm_dec_pomdp.envs.base import NotAskedToStepError
from llm_dec_pomdp.envs.wrappers import (
    PROTOCOLS,
    ByteObservation,
    DiscreteMenu,
    FixedRoster,
    NumericWrapper,
    TokenIds,
    with_protocol,
)

AGENTS = ["agent_0", "agent_1"]
Wrap = Callable[[Any], NumericWrapper]


def menu(env: Any) -> NumericWrapper:
    return DiscreteMenu(env, WORDS)


def tokens(env: Any) -> NumericWrapper:
    return TokenIds(env, WORDS, 3)


def read(array: Any) -> str:
    return bytes(array).rstrip(b"\0").decode()


WRAPS: dict[str, Wrap] = {
    "menu": menu,
    "tokens": tokens,
    "bytes": lambda env: ByteObservation(env, 64),
    "roster": FixedRoster,
    "menu, bytes": lambda env: ByteObservation(menu(env), 64),
    "bytes, menu": lambda env: menu(ByteObservation(env, 64)),
    "tokens, bytes, roster": lambda env: FixedRoster(ByteObservation(tokens(env), 64)),
    "roster, bytes, menu": lambda env: menu(ByteObservation(FixedRoster(env), 64)),
}
wraps = pytest.mark.parametrize("wrap", WRAPS.values(), ids=WRAPS)
protocols = pytest.mark.parametrize("protocol", PROTOCOLS)


def played(env: Any, seed: int) -> list[Any]:
    """An episode of actions that the spaces draw."""
    steps: list[Any] = [env.reset(seed=seed)]
    for i, agent in enumerate(env.possible_agents):
        env.action_space(agent).seed(seed + i)
    while env.agents:
        steps.append(env.step({agent: env.action_space(agent).sample() for agent in env.agents}))
    return steps


def decision(env: NumericWrapper) -> str:
    """Where an episode stands."""
    return repr((env.agents, [env.asked(agent) for agent in env.agents], env.unwrapped.state(), env._now))


# --- what all of them share -------------------------------------------------------------------------------------------


@wraps
@protocols
def test_pettingzoo_has_nothing_to_warn_about(wrap: Wrap, protocol: str) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        parallel_api_test(wrap(with_protocol(duo(), protocol)), num_cycles=7)
        parallel_seed_test(lambda: wrap(with_protocol(duo(), protocol)), num_cycles=7)
    assert [str(warning.message) for warning in caught] == []


@pytest.mark.parametrize("env_id", sorted(llm_dec_pomdp.registry))
def test_every_registered_environment_can_be_wrapped(env_id: str) -> None:
    env = FixedRoster(ByteObservation(DiscreteMenu(make_least(env_id), ["yes", "no"]), 100))
    parallel_api_test(env, num_cycles=2)


@wraps
@protocols
def test_observations_lie_in_their_spaces_from_reset_to_end(wrap: Wrap, protocol: str) -> None:
    env = wrap(with_protocol(duo(2), protocol))
    for observations, *_ in played(env, 0):
        assert list(observations) == env.possible_agents
        for agent, observation in observations.items():
            assert env.observation_space(agent).contains(observation)


@wraps
@protocols
def test_a_pickled_copy_plays_the_same_episode(wrap: Wrap, protocol: str) -> None:
    env = wrap(with_protocol(duo(3), protocol))
    twin = pickle.loads(pickle.dumps(env))
    assert repr(played(twin, 4)) == repr(played(env, 4))


@wraps
def test_a_fork_or_a_snapshot_stands_where_the_episode_stood(wrap: Wrap) -> None:
    env = wrap(with_protocol(duo(2), "sequential"))
    env.reset(seed=0)
    before, snapshot = decision(env), env.snapshot()
    twin = env.fork()
    while twin.agents:
        twin.step({agent: twin.action_space(agent).sample() for agent in twin.agents})
    assert decision(env) == before
    assert env.agents == AGENTS
    assert twin.action_space("agent_0") is not env.action_space("agent_0")
    actions = {agent: env.action_space(agent).sample() for agent in env.agents}
    first = repr(env.step(actions))
    env.step(actions)
    env.restore(snapshot)
    assert repr(env.step(actions)) == first


@wraps
@pytest.mark.parametrize("begun", [False, True])
def test_stepping_without_an_episode_raises_the_error_of_the_suite(wrap: Wrap, begun: bool) -> None:
    env = wrap(duo())
    actions = {agent: env.action_space(agent).sample() for agent in env.possible_agents}
    if begun:
        played(env, 0)
    with pytest.raises(NotAskedToStepError, match="call reset"):
        env.step(actions)


@wraps
def test_an_unknown_agent_is_refused(wrap: Wrap) -> None:
    env = wrap(duo())
    env.reset(seed=0)
    with pytest.raises(KeyError, match="agent_7"):
        env.step({"agent_0": env.action_space("agent_0").sample(), "agent_7": "x"})


@wraps
def test_unwrapped_is_the_text_environment_with_its_protocol(wrap: Wrap) -> None:
    inner = with_protocol(duo(), "discussion")
    env = wrap(inner)
    assert env.unwrapped is inner
    assert env.max_cycles == inner.max_turns == 2


def test_wrappers_pass_on_what_they_do_not_change() -> None:
    inner = Duo(duo().items, render_mode="ansi")
    env = FixedRoster(menu(inner))
    env.reset(seed=0, options={"index": 3})
    assert inner.item.id == "t3"
    assert json.loads(env.state())["task"]["id"] == "t3"
    assert env.render() == inner.render() != ""
    assert env.metadata["name"] == "duo-v0/discretemenu/fixedroster"
    env.close()


# --- bytes ------------------------------------------------------------------------------------------------------------


def observed(text: str, length: int, **kwargs: Any) -> Any:
    env = ByteObservation(duo(), length, **kwargs)
    return env._observation("agent_0", text)


def test_observations_are_the_bytes_of_the_text() -> None:
    env = ByteObservation(duo(), 64)
    observations, _ = env.reset(options={"index": 2})
    assert {agent: read(array) for agent, array in observations.items()} == {
        "agent_0": "post 2\n\nwrite the first part",
        "agent_1": "post 2\n\nwrite the second part",
    }
    assert env.observation_space("agent_0") == spaces.Box(0, 255, (64,), np.uint8)


@pytest.mark.parametrize(
    ("text", "length", "keep", "left"),
    [
        ("ab", 5, "start", [97, 98, 0, 0, 0]),
        ("hello, world", 5, "start", [*b"hello"]),
        ("hello, world", 5, "end", [*b"world"]),
        ("a🙂b", 3, "start", [97, 0, 0]),
        ("a🙂b", 3, "end", [98, 0, 0]),
        ("a\ud800", 7, "start", [*b"a\\ud800"]),
    ],
    ids=["padded", "start", "end", "no half character", "no half character at the end", "lone surrogate"],
)
def test_the_bytes_of_a_text(text: str, length: int, keep: Any, left: list[int]) -> None:
    assert observed(text, length, keep=keep).tolist() == left


def test_the_state_is_bytes_too() -> None:
    inner = duo()
    env = FixedRoster(ByteObservation(inner, 10, state_length=400))
    env.reset(seed=0)
    assert env.state_space.contains(env.state())
    assert read(env.state()) == inner.state()


def test_floats_lie_between_minus_one_and_one_and_nobody_asked_is_padding() -> None:
    env = FixedRoster(ByteObservation(with_protocol(duo(), "sequential"), 64, dtype="float32"))
    observations, _ = env.reset(seed=0)
    first = observations["agent_0"]
    assert env.observation_space("agent_0") == spaces.Box(-1.0, 1.0, (64,), np.float32)
    assert env.state_space.contains(env.state())
    assert first.dtype == np.float32
    assert first[0] == pytest.approx(ord("p") / 127.5 - 1)
    assert (observations["agent_1"] == -1).all()
    assert env.observation_space("agent_0").contains(observations["agent_1"])


def test_an_observation_may_be_the_whole_history() -> None:
    env = ByteObservation(duo(2), 100, history=True)
    seen, _ = env.reset(options={"index": 0})
    beginning = read(seen["agent_0"])
    seen, *_ = env.step({"agent_0": "gamma", "agent_1": "gamma"})
    observation = env.unwrapped.history("agent_0")[-1].text
    assert read(seen["agent_0"]) == f"{beginning}\ngamma\n{observation}"
    seen, *_ = env.step({"agent_0": "gamma", "agent_1": "gamma"})
    assert not seen["agent_0"].any()  # all is over


# --- roster -----------------------------------------------------------------------------------------------------------


def test_infos_say_who_is_asked() -> None:
    env = FixedRoster(with_protocol(duo(), "sequential"))
    _, infos = env.reset(seed=0)
    asked = [[infos[agent]["asked"] for agent in AGENTS]]
    while env.agents:
        *_, infos = env.step(dict.fromkeys(AGENTS, "alpha"))
        asked.append([infos[agent]["asked"] for agent in AGENTS])
    assert asked == [[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]]


def test_a_masked_draw_of_an_agent_that_is_not_asked_is_entry_0() -> None:
    env = FixedRoster(DiscreteMenu(with_protocol(duo(), "sequential"), WORDS))
    _, infos = env.reset(seed=0)
    assert infos["agent_0"]["action_mask"].tolist() == [1, 1, 1]
    assert infos["agent_1"]["action_mask"].tolist() == [1, 0, 0]
    draws = {env.action_space("agent_1").sample(mask=infos["agent_1"]["action_mask"]) for _ in range(20)}
    assert draws == {0}


def test_infos_keep_the_components_and_have_the_same_keys_at_every_step() -> None:
    env = FixedRoster(menu(with_protocol(duo(2), "discussion")))
    results = played(env, 0)
    assert {tuple(info) for result in results for info in result[-1].values()} == {
        ("reward/hits", "asked", "action_mask")
    }


def test_an_agent_that_leaves_stays_on_the_roster() -> None:
    inner = duo(3, Leaver)
    env = FixedRoster(ByteObservation(menu(inner), 64))
    env.reset(seed=0)
    observations, rewards, terminations, truncations, infos = env.step({"agent_0": 2, "agent_1": 1})
    assert inner.agents == ["agent_1"]
    assert env.agents == AGENTS
    assert rewards == dict.fromkeys(AGENTS, 1.0)
    observations, rewards, terminations, truncations, infos = env.step({"agent_0": 2, "agent_1": 2})
    assert env.agents == AGENTS
    assert not observations["agent_0"].any()
    assert observations["agent_1"].any()
    assert [infos[agent]["asked"] for agent in AGENTS] == [0.0, 1.0]
    assert set(infos["agent_0"]) == set(infos["agent_1"])
    assert rewards == dict.fromkeys(AGENTS, 0.0)  # as good as the turn before
    assert not any({**terminations, **truncations}.values())
    _, rewards, terminations, truncations, _ = env.step({"agent_0": 2, "agent_1": 1})
    assert env.agents == []
    assert rewards == dict.fromkeys(AGENTS, 1.0)  # one point more
    assert terminations == dict.fromkeys(AGENTS, True)
    assert truncations == dict.fromkeys(AGENTS, False)


def test_pettingzoo_accepts_the_roster_around_an_agent_that_leaves() -> None:
    parallel_api_test(FixedRoster(menu(duo(5, Leaver))), num_cycles=5)


def test_the_roster_wants_an_action_of_everyone() -> None:
    env = FixedRoster(duo(3, Leaver))
    env.reset(seed=0)
    env.step(dict.fromkeys(AGENTS, "x"))
    with pytest.raises(KeyError, match=r"actions are for \['agent_1'\]"):
        env.step({"agent_1": "x"})
