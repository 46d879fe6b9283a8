"""A ready tool: SQL on a database in memory, with sqlite in the code sandbox.

Statements run in a separate process, with the limits of `sqlite_program` and of that process. They can access only the
tables.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import sqlite3
from typing import NamedTuple

from ...sandbox import Limits
from . import confined, sqlite_program
from .function import Kit, kit

LIMITS = Limits(cpu_seconds=2.0, case_seconds=2.0, memory_mb=384)  # the steps of a statement take 0.1 to 0.4 s
LONGEST_CHANGES = 200_000  # characters of the statements of an episode that changed the database


def sql(script: str, *, writable: bool = False) -> Kit:
    """Return a kit with the tools `schema` and `query` on a database.

    Args:
        script: SQL that creates the tables and their rows.
        writable: True if agents may change the database; each episode has its own copy. False for read only.

    Raises:
        ValueError: The script fails.
    """
    try:
        with contextlib.closing(sqlite3.connect(":memory:", isolation_level=None)) as database:
            database.executescript(script)
    except sqlite3.Error as error:
        raise ValueError(f"script fails: {error}; give SQL that sqlite can execute") from error
    database = Database(script, writable)
    return kit("sql", database.schema, database.query, initial=(), bounded=True)


class Database(NamedTuple):
    """A database; see `sql`. The state of an episode is the statements that changed it."""

    script: str
    writable: bool

    def schema(self, state: tuple[str, ...]) -> tuple[tuple[str, ...], str]:
        """See the tables of the database and their columns."""
        return state, _answer("schema", self.script, state)[1:]

    def query(self, state: tuple[str, ...], statement: str) -> tuple[tuple[str, ...], str]:
        """Run one statement of SQL (sqlite) on the database.

        Args:
            statement: Such as SELECT name FROM towns WHERE people > 1000.
        """
        if (size := sum(map(len, (*state, statement)))) > LONGEST_CHANGES:
            raise ValueError(f"with the changes of this episode it has {size} characters, of {LONGEST_CHANGES} at most")
        answer = _answer("query", self.script, state, statement, self.writable)
        if answer[:1] == "-":
            raise ValueError(answer[1:])
        return ((*state, statement) if self.writable and answer[:1] == "*" else state), answer[1:]


@functools.lru_cache(maxsize=256)
def _answer(name: str, *arguments: object) -> str:
    """Return the text that a function of `sqlite_program` returns; cached, since it depends on the arguments only."""
    program = inspect.getsource(sqlite_program)
    return confined.returned(f"{program}\n\ndef program():\n    return {name}{arguments!r}\n", LIMITS)
