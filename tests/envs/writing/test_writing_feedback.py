"""What writers are told between turns: content by mode and level, and never a word of each other."""

from __future__ import annotations

from typing import Any

import pytest

import llm_dec_pomdp
from llm_dec_pomdp.envs.writing.feedback import MODES

WRITING = ("tldr-v0", "arxiv-v0", "tldr-v1", "arxiv-v1")


def lines(message: str) -> list[str]:
    return [line[2:] for line in message.splitlines() if line.startswith("- ")]


def writing_env(env_id: str, feedback: str = "level_feedback", max_turns: int = 2) -> Any:
    env = llm_dec_pomdp.make(env_id, feedback=feedback, max_turns=max_turns)
    env.reset(options={"index": 0})
    return env


def heard(env: Any, first: str, second: str) -> str:
    """What both writers are told; it is the same text."""
    [message] = set(env.step({"agent_0": first, "agent_1": second})[0].values())
    return message


def words(letter: str, count: int, different: int | None = None) -> str:
    return " ".join(f"{letter}{i % (different or count):03}" for i in range(count))


@pytest.mark.parametrize("env_id", WRITING)
def test_writers_are_asked_again_under_none(env_id: str) -> None:
    assert heard(writing_env(env_id, "none"), "a", "b") == "Write the complete new version of your text."


@pytest.mark.parametrize(
    ("first", "second", "levels", "measures"),
    [
        (words("a", 5), words("b", 5), ["structure: failed"], ["5 words", "8 to 256"]),
        (words("a", 100), words("b", 100), ["structure: passed", "coordination: failed"], ["1.00", "1.6 to 3.2"]),
        (
            words("a", 50),
            words("b", 100, 50),
            ["structure: passed", "coordination: passed", "vocabulary: failed"],
            ["1.00", "2 times"],
        ),
        (
            words("a", 50),
            words("b", 100),
            ["structure: passed", "coordination: passed", "vocabulary: passed", "style: passed"],
            ["of 0 kinds", "0%"],
        ),
    ],
)
def test_levels_up_to_the_one_that_failed_and_its_measure_and_range(
    first: str, second: str, levels: list[str], measures: list[str]
) -> None:
    for env_id in ("tldr-v0", "tldr-v1"):
        assert lines(heard(writing_env(env_id, "level_passed"), first, second)) == levels
    told = lines(heard(writing_env("tldr-v0"), first, second))
    assert [line.partition(", ")[0] for line in told] == levels
    assert all(measure in told[-1] for measure in measures)


def test_arxiv_gives_its_own_ranges() -> None:
    told = lines(heard(writing_env("arxiv-v0"), words("a", 150), words("b", 210)))
    ranges = ("128 to 256", "1.3 to 1.6", "0.7 to 1.3")
    assert all(given in line for given, line in zip(ranges, told, strict=False))


@pytest.mark.parametrize("env_id", WRITING)
@pytest.mark.parametrize("mode", MODES)
def test_writers_read_no_word_of_each_other(env_id: str, mode: str) -> None:
    for count in (5, 130, 200):
        message = heard(writing_env(env_id, mode), f"kestrel {words('a', count)}", f"{words('b', count + 60)} falcon")
        assert "kestrel" not in message
        assert "falcon" not in message
