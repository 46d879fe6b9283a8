"""Orchestration traces: episodes as graphs that are written, checked, played again, counted, shown and trained on."""

from .episodes import to_episode, to_groups
from .files import ContentStore, TraceWriter, read, read_whole, resolve, store_of, write
from .graph import Trace, from_episode
from .header import Header, Player, TraceError, environment_of
from .replay import replay
from .stats import stats
from .validate import check, check_graph, validate

__all__ = [
    "ContentStore",
    "Header",
    "Player",
    "Trace",
    "TraceError",
    "TraceWriter",
    "check",
    "check_graph",
    "environment_of",
    "from_episode",
    "read",
    "read_whole",
    "replay",
    "resolve",
    "stats",
    "store_of",
    "to_episode",
    "to_groups",
    "validate",
    "write",
]
