"""Orchestration traces: episodes as graphs that are written, checked, played again, counted, shown and trained on."""

from .episodes import to_episode, to_groups
from .files import ContentStore, TraceWriter, read, read_whole, resolve, store_of, write
from .graph import Trace, from_episode
from .header import Header, Player, TraceError
from .replay import replay
from .validate import validate

__all__ = [
    "ContentStore",
    "Header",
    "Player",
    "Trace",
    "TraceError",
    "TraceWriter",
    "from_episode",
    "read",
    "read_whole",
    "replay",
    "resolve",
    "store_of",
    "to_episode",
    "to_groups",
    "validate",
    "write",
]
