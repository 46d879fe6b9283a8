from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
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

    def __init__(self, pad: int | None = 0) -> None:
        self.pad_token_id = pad

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


# --- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("build", "error", "named"),
    [
        (lambda: DiscreteMenu(duo(), []), ValueError, "0"),
        (lambda: DiscreteMenu(duo(), "alpha"), TypeError, "alpha"),
        (lambda: DiscreteMenu(duo(), [1, 2]), TypeError, "1, 2"),
        (lambda: DiscreteMenu(duo(), {"agent_0": ["a"]}), KeyError, "agent_0"),
        (lambda: DiscreteMenu(duo(), last_words), ValueError, "n is None"),
        (lambda: playing(DiscreteMenu(duo(), last_words, n=3)), ValueError, "the menu of agent_0 has 2"),
        (lambda: TokenIds(duo(), WORDS, 0), ValueError, "max_tokens is 0"),
        (lambda: TokenIds(duo(), WORDS, 2, pad_id=3), ValueError, "3"),
        (lambda: TokenIds(duo(), WORDS, 2, pad_id=-1), ValueError, "-1"),
        (lambda: TokenIds(duo(), Letters(pad=None), 5), ValueError, "pad_id"),
        (lambda: ByteObservation(duo(), 4, dtype="float23"), ValueError, "float23"),  # type: ignore[arg-type]
        (lambda: ByteObservation(duo(), 0), ValueError, "length is 0"),
        (lambda: ByteObservation(duo(), 4, state_length=0), ValueError, "state_length 0"),
        (lambda: ByteObservation(duo(), 4, keep="ende"), ValueError, "ende"),  # type: ignore[arg-type]
        (lambda: DiscreteMenu(TokenIds(duo(), WORDS, 3), WORDS), TypeError, "text actions"),
        (lambda: TokenIds(DiscreteMenu(duo(), WORDS), WORDS, 3), TypeError, "text actions"),
        (lambda: ByteObservation(ByteObservation(duo(), 8), 8), TypeError, "text observations"),
    ],
)
def test_a_wrapper_that_cannot_be_is_named(build: Callable[[], Any], error: type[Exception], named: str) -> None:
    with pytest.raises(error, match=named):
        build()


@pytest.mark.parametrize(
    ("env", "action", "error", "named"),
    [
        (DiscreteMenu(duo(), WORDS), 3, ValueError, "3"),
        (DiscreteMenu(duo(), WORDS), -1, ValueError, "-1"),
        (DiscreteMenu(duo(), WORDS), "alpha", TypeError, "'alpha'"),
        (DiscreteMenu(duo(), WORDS), 0.0, TypeError, "0.0"),
        (DiscreteMenu(duo(), WORDS), np.array([0, 1]), TypeError, "0, 1"),
        (TokenIds(duo(), WORDS, 2), [0, 4], ValueError, r"0\.\.4"),
        (TokenIds(duo(), WORDS, 2), [0, -1], ValueError, r"-1\.\.0"),
        (TokenIds(duo(), WORDS, 2), [0], TypeError, r"\(1,\)"),
        (TokenIds(duo(), WORDS, 2), [0.0, 1.0], TypeError, "float64"),
        (TokenIds(duo(), WORDS, 2), "alpha", TypeError, "agent_0"),
    ],
)
def test_an_action_outside_its_space_is_named(env: Any, action: Any, error: type[Exception], named: str) -> None:
    playing(env)
    with pytest.raises(error, match=named):
        env.step({"agent_0": action, "agent_1": env.action_space("agent_1").sample()})
