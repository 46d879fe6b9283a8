"""What writers are told between turns: content by mode and level, and never a word of each other."""

from __future__ import annotations

from itertools import pairwise
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


STOPS = {
    "structure": (words("a", 5), words("b", 5), ["structure: failed"]),
    "coordination": (words("a", 100), words("b", 100), ["structure: passed", "coordination: failed"]),
    "vocabulary": (
        words("a", 50),
        words("b", 100, 50),
        ["structure: passed", "coordination: passed", "vocabulary: failed"],
    ),
    "nowhere": (
        words("a", 50),
        words("b", 100),
        ["structure: passed", "coordination: passed", "vocabulary: passed", "style: passed"],
    ),
}


@pytest.mark.parametrize(("first", "second", "levels"), STOPS.values(), ids=STOPS)
def test_levels_of_a_text_up_to_the_one_that_failed(first: str, second: str, levels: list[str]) -> None:
    for env_id in ("tldr-v0", "tldr-v1"):
        assert lines(heard(writing_env(env_id, "level_passed"), first, second)) == levels


@pytest.mark.parametrize(
    ("stop", "reason"),
    [
        ("structure", "the summary has 5 words and the elaboration 5; 8 to 256 are wanted"),
        ("coordination", "the elaboration is 1.00 times as long as the summary; 1.6 to 3.2 times is best"),
        (
            "vocabulary",
            "the elaboration has 1.00 times as many different words as the summary; 2 times or more is best",
        ),
        ("nowhere", "transition words of 0 kinds are used, more kinds are better; 0% of the words are shared"),
    ],
)
def test_reasons_give_the_measure_and_the_range(stop: str, reason: str) -> None:
    first, second, levels = STOPS[stop]
    feedback_lines = lines(heard(writing_env("tldr-v0"), first, second))
    assert [line.partition(", ")[0] for line in feedback_lines] == levels
    assert reason in feedback_lines[-1]


def test_arxiv_gives_its_own_ranges() -> None:
    feedback_lines = lines(heard(writing_env("arxiv-v0"), words("a", 150), words("b", 210)))
    assert "128 to 256 are wanted" in feedback_lines[0]
    assert "1.3 to 1.6 times is best" in feedback_lines[1]
    assert "0.7 to 1.3 times is best" in feedback_lines[2]


@pytest.mark.parametrize("env_id", WRITING)
@pytest.mark.parametrize("mode", MODES)
def test_writers_read_no_word_of_each_other(env_id: str, mode: str) -> None:
    for count in (5, 130, 200):
        message = heard(writing_env(env_id, mode), f"kestrel {words('a', count)}", f"{words('b', count + 60)} falcon")
        assert "kestrel" not in message
        assert "falcon" not in message


@pytest.mark.parametrize("env_id", WRITING)
@pytest.mark.parametrize("mode", MODES)
def test_writers_histories_grow_by_the_same_amount_each_turn(env_id: str, mode: str) -> None:
    env = writing_env(env_id, mode, max_turns=7)
    sizes = [len("".join(m.text for m in env.history("agent_0")))]
    for _ in range(6):
        env.step({"agent_0": words("a", 130), "agent_1": words("b", 200)})
        sizes.append(len("".join(m.text for m in env.history("agent_0"))))
    assert len({after - before for before, after in pairwise(sizes)}) == 1


@pytest.mark.parametrize("mode", ["level_feedbak", "expert", "passed"])
def test_an_unknown_writing_mode_is_answered_with_the_nearest(mode: str) -> None:
    with pytest.raises(ValueError, match=rf"feedback '{mode}' does not exist; .*level_"):
        writing_env("tldr-v0", mode)
