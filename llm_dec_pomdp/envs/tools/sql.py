"""A ready tool: SQL on a database in memory, by sqlite.

Work is bounded by steps of sqlite's machine and not by a clock, so that the same calls give the same answers on every
machine. Statements can reach nothing but the tables: no files, no extensions, no settings.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Generator
from typing import NamedTuple

from .function import Kit, kit

STEPS = 20_000_000  # of sqlite's virtual machine in a call
ROWS = 100  # of a result that are shown
LONGEST_VALUE = 100_000  # characters of a value
_EVERY = 1000  # steps between two looks
_READS = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_RECURSIVE}
_WRITES = {
    sqlite3.SQLITE_INSERT,
    sqlite3.SQLITE_UPDATE,
    sqlite3.SQLITE_DELETE,
    sqlite3.SQLITE_CREATE_TABLE,
    sqlite3.SQLITE_CREATE_INDEX,
    sqlite3.SQLITE_CREATE_VIEW,
    sqlite3.SQLITE_DROP_TABLE,
    sqlite3.SQLITE_DROP_INDEX,
    sqlite3.SQLITE_DROP_VIEW,
    sqlite3.SQLITE_ALTER_TABLE,
    sqlite3.SQLITE_REINDEX,
}
# Functions of a fixed result: no chance, no clock, nothing of the machine, no values out of proportion.
_FUNCTIONS = frozenset(
    "abs avg coalesce count group_concat ifnull iif instr length like glob lower ltrim max min nullif round rtrim sum "
    "substr substring total trim typeof upper rank row_number dense_rank lag lead first_value last_value "
    "date strftime julianday".split()
)


def sql(script: str, *, writable: bool = False) -> Kit:
    """The tools `schema` and `query` on a database.

    Args:
        script: SQL that makes the tables and their rows.
        writable: Each episode has a copy that may be changed (the state keeps its changes); else reading only.

    Raises:
        ValueError: The script fails.
    """
    try:
        with contextlib.closing(sqlite3.connect(":memory:", isolation_level=None)) as database:
            database.executescript(script)
    except sqlite3.Error as error:
        raise ValueError(f"the script of the database fails: {error}") from error
    database = Database(script, writable)
    return kit("sql", database.schema, database.query, initial=(), bounded=True)


class Database(NamedTuple):
    """A database; see `sql`. The state of an episode is the statements that changed it."""

    script: str
    writable: bool

    def schema(self, state: tuple[str, ...]) -> tuple[tuple[str, ...], str]:
        """See the tables of the database and their columns."""
        with _opened(self.script, state) as database:
            rows = database.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY name").fetchall()
        return state, "\n".join(row[0] for row in rows) or "There are no tables."

    def query(self, state: tuple[str, ...], statement: str) -> tuple[tuple[str, ...], str]:
        """Run one statement of SQL (sqlite) on the database.

        Args:
            statement: Such as SELECT name FROM towns WHERE people > 1000.
        """
        with _opened(self.script, state) as database:
            before = database.total_changes
            with _bounded(database, writable=self.writable):
                cursor = database.execute(statement)
                rows = cursor.fetchmany(ROWS + 1)
            changed = database.total_changes > before or _changes_tables(statement)
            return ((*state, statement) if self.writable and changed else state), _table(cursor, rows)


@contextlib.contextmanager
def _opened(script: str, state: tuple[str, ...]) -> Generator[sqlite3.Connection]:
    """The database after earlier changes, which are made again."""
    with contextlib.closing(sqlite3.connect(":memory:", isolation_level=None)) as database:
        database.executescript(script)
        for statement in state:
            with _bounded(database, writable=True):
                database.execute(statement).fetchmany(1)
        yield database


def _changes_tables(statement: str) -> bool:
    return statement.lstrip().lower().startswith(("create", "drop", "alter"))


@contextlib.contextmanager
def _bounded(database: sqlite3.Connection, *, writable: bool) -> Generator[None]:
    """Statements of agents: only on the tables, and only so many steps."""
    left = STEPS // _EVERY
    allowed = _READS | _WRITES if writable else _READS

    def step() -> int:
        nonlocal left
        left -= 1
        return left < 0

    def authorized(action: int, first: str | None, second: str | None, *_: str | None) -> int:
        fine = second in _FUNCTIONS if action == sqlite3.SQLITE_FUNCTION else action in allowed
        return sqlite3.SQLITE_OK if fine else sqlite3.SQLITE_DENY

    database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST_VALUE)
    database.set_authorizer(authorized)
    database.set_progress_handler(step, _EVERY)
    try:
        yield
    except sqlite3.OperationalError as error:
        if left < 0:
            raise ValueError(f"it took more than {STEPS} steps; ask for less") from None
        raise ValueError(str(error)) from None
    except sqlite3.DatabaseError as error:
        refused = "not authorized" in str(error) or "prohibited" in str(error)
        raise ValueError(
            f"{error}; this database is {'for its tables' if writable else 'read'} only" if refused else str(error)
        ) from None
    except sqlite3.Warning as error:  # several statements
        raise ValueError(f"{error}; give one statement") from None
    finally:
        database.set_progress_handler(None, 0)
        database.set_authorizer(None)


def _table(cursor: sqlite3.Cursor, rows: list[tuple[object, ...]]) -> str:
    if not cursor.description:
        return f"done; rows changed: {max(cursor.rowcount, 0)}"
    lines = [" | ".join(column[0] for column in cursor.description)]
    lines += [" | ".join("" if value is None else str(value) for value in row) for row in rows[:ROWS]]
    if len(rows) > ROWS:
        lines.append(f"[only the first {ROWS} rows]")
    return "\n".join(lines) if rows else f"{lines[0]}\n(no rows)"
