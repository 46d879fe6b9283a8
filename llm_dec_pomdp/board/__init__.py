"""The leaderboard: a frozen suite, submissions that anyone can verify, and their table."""

from .play import Entrant, bound, run
from .submission import Submission, read
from .suite import BoardError, BoardSuite, BoardTask, load
from .table import page
from .verify import verify

__all__ = [
    "BoardError",
    "BoardSuite",
    "BoardTask",
    "Entrant",
    "Submission",
    "bound",
    "load",
    "page",
    "read",
    "run",
    "verify",
]
