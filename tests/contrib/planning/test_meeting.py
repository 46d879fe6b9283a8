"""meeting-v0: rewards of bookings, answers to failed bookings, and the parsing of calendars."""

from __future__ import annotations

from typing import Any

import pytest

import llm_dec_pomdp
from llm_dec_pomdp.contrib.planning.meeting import read_calendar
from llm_dec_pomdp.envs.tasks import TaskError

CALENDARS = """\
Monday 9 10 Tuesday 9 best Monday 9
Monday 9 10 Tuesday 9 best Monday 10
Monday 10 11 Tuesday 9 best Monday 11"""
ROW = {"prompt": "Meet.", "calendars": CALENDARS}


def play(*turns: tuple[str, str, str], **options: Any) -> tuple[list[float], Any]:
    """Return the reward of each turn after a first turn of empty texts."""
    env: Any = llm_dec_pomdp.make("meeting-v0", tasks=[ROW], **options)
    env.reset(seed=0)
    paid = [env.step(dict(zip(env.agents, texts, strict=True)))[1]["agent_0"] for texts in (("",) * 3, *turns)]
    return paid[1:], env


@pytest.mark.parametrize(
    ("texts", "paid", "answer"),
    [
        (("BOOK Monday 10",) * 3, 1.0, ""),  # one of three likes it best
        (("let us book tuesday 9!", "BOOK Monday 10, no: BOOK Tuesday 9", "Book  TUESDAY\n9"), 0.5, ""),
        (("BOOK Monday 9",) * 3, -0.05, "Monday 9 is not free for all."),
        (("BOOK Monday 10", "BOOK Monday 10", "BOOK Tuesday 9"), -0.05, "person 3 Tuesday 9."),
        (("BOOK Monday 10", "BOOK Monday 10", "Monday 10?"), -0.05, "person 2 Monday 10."),
        (("BOOK Monday 8",) * 3, -0.05, "Monday 8 is past, it is Monday 9."),
        (("BOOK Friday 9",) * 3, -0.05, "Friday 9 is not in the calendar, which ends on Wednesday 12."),
        (("BOOK it",) * 3, -0.05, "BOOK needs a day and an hour"),
        (("BOOK Monday 100",) * 3, -0.05, "BOOK needs a day and an hour"),
    ],
)
def test_a_booking_pays_by_how_many_like_it_and_a_failed_one_is_answered(
    texts: tuple[str, str, str], paid: float, answer: str
) -> None:
    rewards, env = play(texts)
    assert rewards == pytest.approx([paid])
    assert (env.agents == []) == (paid > 0)
    assert answer in env.history("agent_0")[-1].text
    assert env.last_score.total == pytest.approx(paid - 0.05)


@pytest.mark.parametrize(
    ("text", "free", "best"),
    [
        ("Monday 9 11 Tuesday 10 best Monday 11", {(0, 9), (0, 11), (1, 10)}, (0, 11)),
        ("Tuesday 10 is free for me. tuesday 9 is best!", {(1, 10), (1, 9)}, (1, 9)),
        ("I cannot on Monday, nor at 9; Mondays 9", set[tuple[int, int]](), None),
    ],
)
def test_days_and_hours_are_read_from_any_text(text: str, free: set[tuple[int, int]], best: Any) -> None:
    assert read_calendar(text) == (free, best)


def test_the_optimal_team_uses_what_a_person_wrote() -> None:
    env: Any = llm_dec_pomdp.make("meeting-v0", tasks=[ROW])
    env.reset(seed=0)
    optimal = env.script("optimal")
    written = {"agent_0": "Monday 10 is free for me, and Tuesday 9", "agent_1": "TELL", "agent_2": "TELL"}
    env.step(written)
    assert optimal("agent_1", env.history("agent_1")) == "BOOK Monday 10"


@pytest.mark.parametrize(
    ("calendars", "problem"),
    [
        (CALENDARS.partition("\n")[2], "has 2 lines"),
        (CALENDARS.replace("Tuesday 9", "Friday 9"), "Friday 9"),
        (CALENDARS.replace("best Monday 11", ""), "'calendars'"),
        ("Monday 9 best Monday 9\nMonday 9 best Monday 9\nMonday 10 best Monday 10", "share no hour"),
    ],
)
def test_calendars_that_do_not_fit_are_named(calendars: str, problem: str) -> None:
    with pytest.raises(TaskError, match=problem):
        llm_dec_pomdp.make("meeting-v0", tasks=[{**ROW, "calendars": calendars}])
