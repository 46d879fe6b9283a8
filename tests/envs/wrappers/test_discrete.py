from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from tasks import WORDS, duo

from llm_dec_pomdp.envs.wrappers import ByteObservation, DiscreteMenu, TokenIds, with_protocol


def last_text(env: Any, agent: str = "agent_0") -> str:
    """The last text of an agent."""
    return env.unwrapped.history(agent)[1::2][-1].text


def last_words(agent: str, observation: str) -> list[str]:
    return [observation.split()[-2], agent]


def playing(env: Any) -> Any:
    env.reset(seed=0)
    return env


# --- menus ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [int, np.int64, np.array, np.uint8])
def test_an_action_is_a_position_in_the_menu_as_any_integer(kind: Any) -> None:
    env = playing(DiscreteMenu(duo(), WORDS))
    assert env.action_space("agent_0") == spaces.Discrete(3)
    _, rewards, *_ = env.step({"agent_0": kind(0), "agent_1": kind(1)})
    assert last_text(env) == "alpha"
    assert last_text(env, "agent_1") == "beta"
    assert rewards["agent_0"] == 2.0


def test_every_agent_may_have_its_own_menu() -> None:
    env = playing(DiscreteMenu(duo(), {"agent_0": ["a", "b"], "agent_1": ["c"]}))
    assert env.action_space("agent_0").n == 2
    assert env.action_space("agent_1").n == 1
    env.step({"agent_0": 1, "agent_1": 0})
    assert (last_text(env), last_text(env, "agent_1")) == ("b", "c")


@pytest.mark.parametrize("bytes_inside", [False, True])
def test_a_callable_reads_the_text_whatever_is_inside(bytes_inside: bool) -> None:
    inner = ByteObservation(duo(), 8) if bytes_inside else duo()
    env = playing(pickle.loads(pickle.dumps(DiscreteMenu(inner, last_words, n=2))))
    assert env.menu("agent_0") == ("first", "agent_0")
    env.step({"agent_0": 0, "agent_1": 1})
    assert (last_text(env), last_text(env, "agent_1")) == ("first", "agent_1")


def test_a_callable_is_asked_once_per_decision_and_only_for_agents_that_decide() -> None:
    asked: list[str] = []

    def offer(agent: str, observation: str) -> Sequence[str]:
        asked.append(agent)
        return [f"draft {len(asked)}", "alpha"]

    env = playing(DiscreteMenu(with_protocol(duo(), "sequential"), offer, n=2))
    assert (env.menu("agent_0"), env.menu("agent_1")) == (("draft 1", "alpha"), ())
    env.step({"agent_0": 0, "agent_1": 0})
    assert last_text(env) == "draft 1"
    env.step({"agent_0": 0, "agent_1": 0})
    assert last_text(env, "agent_1") == "draft 2"
    assert asked == ["agent_0", "agent_1"]


def test_a_fork_keeps_the_menu_of_the_decision() -> None:
    count = iter(range(100))
    env = playing(DiscreteMenu(duo(), lambda agent, observation: [f"{agent} {next(count)}"], n=1))
    twin = env.fork()
    assert twin.menu("agent_1") == env.menu("agent_1") == ("agent_1 1",)
    twin.step(dict.fromkeys(twin.agents, 0))
    assert last_text(twin, "agent_1") == "agent_1 1"


def test_an_agent_that_is_not_asked_may_say_any_number() -> None:
    env = playing(DiscreteMenu(with_protocol(duo(), "sequential"), WORDS))
    env.step({"agent_0": 0, "agent_1": 99})
    with pytest.raises(ValueError, match="99"):
        env.step({"agent_0": 0, "agent_1": 99})


@pytest.mark.parametrize(
    ("action", "error", "message"),
    [
        (3, ValueError, r"agent_0 is 3; its menu has the entries 0\.\.2"),
        (-1, ValueError, "agent_0 is -1"),
        ("alpha", TypeError, "agent_0 is 'alpha'; it must be an integer"),
        (0.0, TypeError, "must be an integer"),
        (np.array([0, 1]), TypeError, "must be an integer"),
    ],
)
def test_an_action_outside_the_menu_is_refused(action: Any, error: type[Exception], message: str) -> None:
    env = playing(DiscreteMenu(duo(), WORDS))
    with pytest.raises(error, match=message):
        env.step({"agent_0": action, "agent_1": 0})


@pytest.mark.parametrize(
    ("menu", "error", "message"),
    [
        ([], ValueError, "0 candidates"),
        ("alpha", TypeError, "sequence of texts"),
        ([1, 2], TypeError, "sequence of texts"),
        ({"agent_0": ["a"]}, KeyError, "one for each of"),
        (last_words, ValueError, "n is None"),
    ],
)
def test_a_bad_menu_is_refused(menu: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        DiscreteMenu(duo(), menu)


def test_a_callable_that_gives_another_number_is_refused() -> None:
    with pytest.raises(ValueError, match="the menu of agent_0 has 2 candidates"):
        DiscreteMenu(duo(), last_words, n=3).reset(seed=0)


# --- token ids --------------------------------------------------------------------------------------------------------


def test_token_ids_are_decoded_up_to_the_pad() -> None:
    env = playing(TokenIds(duo(), WORDS, 4))
    assert env.action_space("agent_0") == spaces.MultiDiscrete([4] * 4)
    env.step({"agent_0": np.array([0, 2, 3, 1]), "agent_1": np.array([1, 3, 3, 3])})
    assert last_text(env) == "alpha gamma"
    assert last_text(env, "agent_1") == "beta"


@pytest.mark.parametrize(
    ("kwargs", "ids", "text"),
    [
        ({}, [3, 0, 1], ""),
        ({}, [0, 0, 0], "alpha alpha alpha"),
        ({"separator": ""}, [0, 1, 3], "alphabeta"),
        ({"pad_id": 0}, [1, 2, 0], "beta gamma"),
        ({"pad_id": 0}, [0, 1, 2], ""),
    ],
)
def test_text_of_ids(kwargs: dict[str, Any], ids: list[int], text: str) -> None:
    assert TokenIds(duo(), WORDS, 3, **kwargs).text(ids) == text


class Letters:
    """A tokenizer as `transformers` has them: 0 pads, 1 is special, the rest are letters."""

    pad_token_id: int | None = 0

    def __len__(self) -> int:
        return 28

    def decode(self, token_ids: list[int], *, skip_special_tokens: bool) -> str:
        return "".join("<s>" if i == 1 else chr(95 + i) for i in token_ids if not (skip_special_tokens and i == 1))


def test_a_tokenizer_decodes_and_says_which_id_pads() -> None:
    env = TokenIds(duo(), Letters(), 5)
    assert env.action_space("agent_1") == spaces.MultiDiscrete([28] * 5)
    assert env.text([1, 2, 3, 0, 4]) == "ab"


@pytest.mark.slow
def test_the_tokenizer_of_the_built_in_model_decodes() -> None:
    from llm_dec_pomdp.agents.io.models import load_model

    _, tokenizer = load_model("builtin:tiny")
    env = playing(TokenIds(duo(), tokenizer, 12))
    ids: list[int] = tokenizer("alpha beta", add_special_tokens=False)["input_ids"]
    padded = np.array(ids + [env.pad_id] * (12 - len(ids)))
    env.step({"agent_0": padded, "agent_1": padded})
    assert last_text(env) == "alpha beta"


def test_a_tokenizer_without_a_pad_id_needs_one() -> None:
    letters = Letters()
    letters.pad_token_id = None
    with pytest.raises(ValueError, match=r"give pad_id, one of the 28 ids 0\.\.27"):
        TokenIds(duo(), letters, 5)


@pytest.mark.parametrize("kwargs", [{"max_tokens": 0}, {"max_tokens": 2, "pad_id": 3}, {"max_tokens": 2, "pad_id": -1}])
def test_bad_token_options_are_refused(kwargs: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"max_tokens is 0|the pad id is (3|-1)"):
        TokenIds(duo(), WORDS, **kwargs)


@pytest.mark.parametrize(
    ("action", "error", "message"),
    [
        ([0, 4], ValueError, r"the ids 0\.\.4"),
        ([0, -1], ValueError, r"the ids -1\.\.0"),
        ([0], TypeError, r"shape \(1,\)"),
        ([0.0, 1.0], TypeError, "float64"),
        ("alpha", TypeError, "must be"),
    ],
)
def test_an_action_that_is_no_ids_is_refused(action: Any, error: type[Exception], message: str) -> None:
    env = playing(TokenIds(duo(), WORDS, 2))
    with pytest.raises(error, match=message):
        env.step({"agent_0": action, "agent_1": [0, 0]})
