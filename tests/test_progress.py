"""What a log and a terminal show of work."""

from __future__ import annotations

import io

from rich.console import Console
from waiting import wait_until

from llm_dec_pomdp.progress import Lines, shown


def test_a_log_has_a_line_at_the_beginning_and_the_end_of_a_stage_and_for_what_is_said() -> None:
    log = io.StringIO()
    with shown(Console(file=log), quiet=False) as progress, progress.stage("a: train", 3) as advance:
        advance(2, "return 40 %")
        progress.say("a: [bold] is :leaves: as it is")
        advance(1, "")
    lines = [line.partition(" ")[2] for line in log.getvalue().splitlines()]
    assert lines == ["a: train", "a: [bold] is :leaves: as it is", "a: train: 3 of 3 in 0 s, return 40 %"]


def test_a_log_is_never_silent_for_long() -> None:
    written: list[str] = []
    lines = Lines(written.append, silence=0.05)
    with lines.never_silent(), lines.stage("outer", 2), lines.stage("inner", 5) as advance:
        advance(4, "")
        wait_until(lambda: len(written) >= 4)
    assert all(line.endswith("inner: 4 of 5 in 0 s") for line in written[2:4])


def test_a_terminal_has_bars_and_quiet_work_shows_nothing() -> None:
    for quiet in (False, True):
        screen = io.StringIO()
        with shown(Console(file=screen, force_terminal=True, width=200), quiet=quiet) as progress:
            with progress.stage("a:b: train", 3) as advance:
                advance(3, "")
            progress.say("done")
        assert ("a:b: train" in screen.getvalue(), "done" in screen.getvalue()) == (not quiet, not quiet)
