"""A role with tools, as libraries for single agents are given it."""

from __future__ import annotations

import inspect
import math
from collections.abc import Sequence
from typing import Any, Literal

import pytest

import llm_dec_pomdp
from llm_dec_pomdp.agents.scripted import Scripted
from llm_dec_pomdp.envs.tools import Limits, kit
from llm_dec_pomdp.envs.wrappers import WithTools
from llm_dec_pomdp.integrations.role import OVER, Role
from llm_dec_pomdp.integrations.trl import role_dataset, role_environment, role_return
from llm_dec_pomdp.types import Message


def pin(
    state: tuple[str, ...], word: str, corner: Literal["top", "bottom"] = "top", days: list[int] | None = None
) -> tuple[tuple[str, ...], str]:
    """Pin a word to the board.

    Args:
        word: What it says.
    """
    return (*state, word), f"pinned at the {corner}"


def read_board(state: tuple[str, ...]) -> tuple[tuple[str, ...], str]:
    """Read the board."""
    return state, " ".join(state) or "nothing"


def speaker(agent: str, history: Sequence[Message]) -> str:
    word = history[0].text.partition("The word is ")[2].partition(".")[0]
    return f'pin("{word}")' if len(history) == 1 else "pass"


def board(**options: Any) -> WithTools:
    task = llm_dec_pomdp.make("relay-v0", n_agents=2)
    return WithTools(task, [kit("board", pin, read_board, initial=())], rounds=2, **options)


@pytest.mark.parametrize("others", [speaker, Scripted(speaker), f"{__name__}:speaker"], ids=["say", "policy", "name"])
def test_a_role_plays_while_the_others_follow_their_policy(others: Any) -> None:
    role = Role(board(limits={"read_board": Limits(price=0.25)}), "listener", others)
    for index, word in ((0, "red"), (13, "green")):
        assert role.reset(seed=0, index=index).startswith("Name the word.")
        assert (role.call("read_board", {}), role.over) == (word, False)
        assert (role.say(word), role.over, role.total) == (OVER, True, 0.75)
    assert role.say("red") == OVER
    assert role.total == 0.75


def test_a_script_of_the_environment_plays_the_rest_of_a_hierarchy() -> None:
    env = llm_dec_pomdp.make("research-v0")
    optimal, role = env.script("optimal"), Role(env, "main", "script:optimal")
    history = [Message("observation", role.reset(index=1))]
    while not role.over:
        text = optimal("agent_0", history)
        history += [Message("action", text), Message("observation", role.say(text))]
    assert role.total == 1.0


def test_a_role_is_an_environment_of_trl() -> None:
    env = board()
    factory = role_environment(env, "listener", speaker)
    first, other = factory(), factory()
    methods = {name for name, _ in inspect.getmembers(type(first), inspect.isfunction) if name[0] != "_"}
    assert methods == {"reset", "get_reward", "say", "pin", "read_board"}
    rows: list[dict[str, Any]] = role_dataset(env).to_list()  # pyright: ignore[reportUnknownVariableType]
    for playing, row in ((first, rows[0]), (other, rows[13])):
        assert playing.reset(**row).startswith("Name the word.")
    assert (first.read_board(), other.read_board()) == ("red", "green")
    assert "'colour'" in first.pin("a", colour="x")
    assert (first.say(text="red"), first.get_reward(), other.get_reward()) == (OVER, 1.0, 0.0)
    other.role.total = math.nan  # what could not be scored
    assert other.get_reward() is None


def test_transformers_reads_the_schema_of_a_tool_from_its_method() -> None:
    transformers = pytest.importorskip("transformers.utils")
    schema = transformers.get_json_schema(role_environment(board(), "listener", speaker)().pin)["function"]
    assert (schema["name"], schema["description"]) == ("pin", "Pin a word to the board.")
    assert schema["parameters"]["required"] == ["word"]
    assert schema["parameters"]["properties"]["word"] == {"type": "string", "description": "What it says."}
    assert schema["parameters"]["properties"]["corner"]["enum"] == ["top", "bottom"]
    assert schema["parameters"]["properties"]["days"]["items"] == {"type": "integer"}


def test_the_last_message_may_be_what_the_agent_says() -> None:
    factory = role_environment(board(), "listener", speaker, answer="text")
    playing = [factory(), factory(), factory()]
    for role in playing:
        role.reset(task_id="relay/red/0")
    message = [{"role": "assistant", "content": "red"}]
    completions = [message, [{"role": "tool", "content": "red"}], [{"role": "assistant", "content": None}]]
    assert role_return(completions, environments=playing) == [1.0, 0.0, 0.0]
    assert not hasattr(playing[0], "get_reward")


def test_what_cannot_be_a_role_is_named() -> None:
    with pytest.raises(ValueError, match="'lisener'; did you mean listener"):
        Role(board(), "lisener", speaker)
    with pytest.raises(KeyError, match="best"):
        Role(board(), "listener", "script:best")

    def reset(word: str) -> str:
        """Begin."""
        return word

    env = WithTools(llm_dec_pomdp.make("relay-v0"), [kit("odd", reset)])
    with pytest.raises(ValueError, match="tool 'reset' cannot be a method"):
        role_environment(env, "listener", speaker)
