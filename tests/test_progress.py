"""What a log and a terminal show of work."""

from __future__ import annotations

import io

import pytest
from rich.console import Console
from waiting import wait_until

from llm_dec_pomdp.progress import Lines, shown, time_left


def test_a_log_has_a_line_for_the_result_of_a_stage_and_for_each_message() -> None:
    log = io.StringIO()
    with shown(Console(file=log), quiet=False) as progress, progress.stage("a: train", 3) as advance:
        advance(2, "return 40 %")
        progress.say("a: [bold] is :leaves: as it is")
        advance(1, "")
        with progress.stage("a: load", 1):
            pass
    lines = [line.partition(" ")[2] for line in log.getvalue().splitlines()]
    assert lines == ["a: [bold] is :leaves: as it is", "a: train: 3 of 3 in 0 s, return 40 %"]


def test_a_log_is_never_silent_for_long() -> None:
    written: list[str] = []
    lines = Lines(written.append, silence=0.05)
    with lines.never_silent(), lines.stage("outer", 2), lines.stage("inner", 9, done=3) as advance:
        advance(4, "")
        wait_until(lambda: len(written) >= 2)
    for line in written[:2]:
        assert "inner: 7 of 9 in " in line
        assert "(outer: 0 of 2 in " in line


@pytest.mark.parametrize(
    ("done", "left", "seconds", "text"),
    [(3, 6, 20.0, "about 40 s left"), (1, 60, 30.0, "about 30 min left"), (1, 360, 30.0, "about 3.0 h left")],
)
def test_the_time_left_follows_from_the_units_that_are_done(done: int, left: int, seconds: float, text: str) -> None:
    assert time_left(done, left, seconds) == time_left(done, left, seconds + done * 5.0 / left, since=5.0) == text
    assert time_left(0, left, seconds) == time_left(done, 0, seconds) == ""


def test_a_terminal_has_bars_and_quiet_work_shows_nothing() -> None:
    for quiet in (False, True):
        screen = io.StringIO()
        with shown(Console(file=screen, force_terminal=True, width=200), quiet=quiet) as progress:
            with progress.stage("a:b: train", 3) as advance:
                advance(3, "")
            progress.say("done")
        assert ("a:b: train" in screen.getvalue(), "done" in screen.getvalue()) == (not quiet, not quiet)
