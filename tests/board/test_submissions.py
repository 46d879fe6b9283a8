"""The suite of the leaderboard is the one of this package, and its submissions are valid."""

from __future__ import annotations

from pathlib import Path

import pytest

from llm_dec_pomdp.board import load, verify

BOARD = Path(__file__).resolve().parents[2] / "board"


def test_board_1_is_frozen() -> None:
    """A change of the suite is a suite with another name."""
    assert load("board-1").digest.startswith("29d8711f296b")


@pytest.mark.slow
def test_the_rows_of_the_suite_are_those_of_this_package() -> None:
    for task in load("board-1").tasks:
        assert [item.id for item in task.env("parallel").items] == task.items


@pytest.mark.slow
@pytest.mark.parametrize("folder", sorted(path.name for path in BOARD.iterdir() if path.is_dir()))
def test_every_submission_of_the_leaderboard_is_valid(folder: str) -> None:
    assert verify(BOARD / folder).suite == "board-1"
