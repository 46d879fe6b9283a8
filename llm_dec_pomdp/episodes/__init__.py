"""Traces of episodes, as graphs of events: writing, validation, statistics, and conversion back to episodes."""

from .files import ContentStore, TraceWriter, read, read_whole, resolve, store_of, write
from .header import Header, Player, TraceError, environment_of
from .openai_agents import read_openai_agents
from .otel import read_otel, to_otel, write_otel
from .record import Trace, from_episode
from .restore import task_of, to_episode, to_groups
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
    "read_openai_agents",
    "read_otel",
    "read_whole",
    "resolve",
    "stats",
    "store_of",
    "task_of",
    "to_episode",
    "to_groups",
    "to_otel",
    "validate",
    "write",
    "write_otel",
]
