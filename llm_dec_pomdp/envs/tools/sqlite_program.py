"""The program of the tool `query`: it runs in the code sandbox and imports only the standard library.

Work is limited by steps of sqlite's virtual machine, so that the same statements give the same answers on every
machine. A single step may call a slow function; the limits of the process apply to that. Statements can access only the
tables: no files, no extensions, no settings.

Each function returns a character and a text: "+" an answer, "*" an answer after a change, "-" the reason of a refusal.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Generator, Sequence

STEPS = 20_000_000  # of sqlite's virtual machine in a call
ROWS = 100  # rows of a result that are returned
LONGEST_VALUE = 100_000  # bytes of a value
LONGEST_RESULT = 50_000  # characters
HEAP = 128 << 20  # bytes of memory for sqlite
_EVERY = 1000  # steps between two checks of the limit
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
# Deterministic functions: no randomness, no clock, no access to the machine, no very large values.
_FUNCTIONS = frozenset(
    "abs avg coalesce count group_concat ifnull iif instr length like glob lower ltrim max min nullif round rtrim sum "
    "substr substring total trim typeof upper rank row_number dense_rank lag lead first_value last_value "
    "date strftime julianday".split()
)


# Functions that ALTER TABLE calls; statements cannot call those of sqlite, and printf obeys `LONGEST_VALUE`.
_ALTERING = frozenset(
    "sqlite_rename_table sqlite_rename_column sqlite_rename_test sqlite_rename_quotefix sqlite_drop_column "
    "printf".split()
)
_DATES = {"date": 0, "julianday": 0, "strftime": 1}  # position of the time argument, whose default is the current time
# Their results differ between calls; column defaults call functions without the authorizer.
_CHANGING = "current_date current_time current_timestamp datetime time unixepoch timediff random randomblob".split()

_Value = str | bytes | int | float | None


class RefusedError(Exception):
    """A statement was stopped or refused; the agent observes the message."""


def schema(script: str, changes: Sequence[str]) -> str:
    """Return the tables of the database that a script creates, after changes."""
    with _opened(script, changes) as database:
        rows = database.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY name").fetchall()
    return "+" + ("\n".join(row[0] for row in rows)[:LONGEST_RESULT] or "There are no tables.")


def query(script: str, changes: Sequence[str], statement: str, writable: bool) -> str:
    """Run a statement on the database that a script creates, after changes."""
    try:
        with _opened(script, changes) as database:
            before = _version(database)
            with _bounded(database, writable=writable):
                table = _table(database.execute(statement))
            changed = _version(database) != before
    except RefusedError as error:
        return f"-{error}"
    return f"{'*' if changed else '+'}{table}"


def _version(database: sqlite3.Connection) -> tuple[int, int]:
    """Return two counters: one grows when rows change, the other when tables change."""
    return database.total_changes, database.execute("PRAGMA schema_version").fetchone()[0]


@contextlib.contextmanager
def _opened(script: str, changes: Sequence[str]) -> Generator[sqlite3.Connection]:
    """Open the database and repeat earlier changes."""
    with _closing() as database, _closing() as dates:
        database.executescript(script)
        for name, place in _DATES.items():
            database.create_function(name, -1, _dated(dates, name, place), deterministic=True)
        for name in _CHANGING:
            for count in (-1, 0, 1, 2):
                database.create_function(name, count, _refuse)
        database.execute("PRAGMA temp_store = MEMORY")
        database.execute(f"PRAGMA hard_heap_limit = {HEAP}")
        for statement in changes:
            with _bounded(database, writable=True):
                database.execute(statement).fetchmany(1)
        yield database


def _closing() -> contextlib.closing[sqlite3.Connection]:
    return contextlib.closing(sqlite3.connect(":memory:", isolation_level=None))


def _refuse(*values: _Value) -> _Value:
    raise ValueError


def _dated(dates: sqlite3.Connection, name: str, place: int) -> Callable[..., _Value]:
    """Return a date function of sqlite that refuses the current time, so that results are reproducible."""

    def computed(*values: _Value) -> _Value:
        if len(values) <= place or str(values[place]).lower() in ("now", "subsec", "subsecond"):
            raise ValueError
        if any(isinstance(value, bytes) or "\0" in str(value) for value in values):  # sqlite would read another text
            raise ValueError
        return dates.execute(f"SELECT {name}({', '.join('?' * len(values))})", values).fetchone()[0]

    return computed


@contextlib.contextmanager
def _bounded(database: sqlite3.Connection, *, writable: bool) -> Generator[None]:
    """Limit statements to the tables and to a number of steps."""
    left = STEPS // _EVERY
    allowed = _READS | _WRITES if writable else _READS
    functions = _FUNCTIONS | _ALTERING if writable else _FUNCTIONS

    def step() -> int:
        nonlocal left
        left -= 1
        return left < 0

    def authorized(action: int, first: str | None, second: str | None, *_: str | None) -> int:
        fine = second in functions if action == sqlite3.SQLITE_FUNCTION else action in allowed
        return sqlite3.SQLITE_OK if fine else sqlite3.SQLITE_DENY

    database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST_VALUE)
    database.set_authorizer(authorized)
    database.set_progress_handler(step, _EVERY)
    try:
        yield
    except sqlite3.OperationalError as error:
        if left < 0:
            raise RefusedError(f"it took more than {STEPS} steps; ask for less") from None
        if "user-defined function" in str(error):
            raise RefusedError(
                f"there is no clock and no chance; give {', '.join(_DATES)} a time as text or number, and not 'now', "
                "and a column its value"
            ) from None
        raise RefusedError(str(error)) from None
    except sqlite3.DatabaseError as error:
        refused = "not authorized" in str(error) or "prohibited" in str(error)
        raise RefusedError(
            f"{error}; this database is {'for its tables' if writable else 'read'} only" if refused else str(error)
        ) from None
    except (sqlite3.Error, sqlite3.Warning) as error:  # several statements
        raise RefusedError(f"{error}; give one statement") from None
    except MemoryError:
        raise RefusedError(f"it took more than {HEAP >> 20} MB of memory; ask for less") from None
    except ValueError as error:  # a statement that is no UTF-8
        raise RefusedError(f"{type(error).__name__}: {str(error)[:100]}") from None
    finally:
        database.set_progress_handler(None, 0)
        database.set_authorizer(None)


def _table(cursor: sqlite3.Cursor) -> str:
    """Return the first rows of a result as text."""
    if not cursor.description:
        return f"done; rows changed: {max(cursor.rowcount, 0)}"
    lines = [" | ".join(column[0] for column in cursor.description)]
    left = LONGEST_RESULT - len(lines[0])
    for row in cursor:
        if len(lines) > ROWS:
            lines.append(f"[only the first {ROWS} rows]")
            break
        lines.append(" | ".join("" if value is None else str(value) for value in row))
        left -= 1 + len(lines[-1])
        if left < 0:
            break
    text = "\n".join(lines) if len(lines) > 1 else f"{lines[0]}\n(no rows)"
    return text if left >= 0 else f"{text[:LONGEST_RESULT]}\n[only the first {LONGEST_RESULT} characters]"
