"""Ready tools: what they compute, and what they refuse."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from llm_dec_pomdp.envs.tools import Kit, Limits, Toolbox, ToolState, confined
from llm_dec_pomdp.envs.tools.python import LONGEST_KEPT, Programs, python
from llm_dec_pomdp.envs.tools.ready import MOST_LINES, calculator, files, notes
from llm_dec_pomdp.envs.tools.search import search
from llm_dec_pomdp.envs.tools.sql import LONGEST_CHANGES, Database, sql
from llm_dec_pomdp.envs.tools.sqlite_program import LONGEST_RESULT
from llm_dec_pomdp.sandbox import Limits as SandboxLimits
from llm_dec_pomdp.sandbox import SandboxError

TOWNS = "CREATE TABLE towns (name TEXT, people INTEGER); INSERT INTO towns VALUES ('Ald', 300), ('Bor', 1200);"


class Played:
    """Calls in order on one state."""

    def __init__(self, kit: Kit, **limits: Limits) -> None:
        self.box, self.state = Toolbox([kit], limits), ToolState()

    def __call__(self, text: str) -> Any:
        calls = self.box.calls("agent_0", text)
        self.state, answers = self.box.answer(self.state, "agent_0", calls)
        return answers[0].answer


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("(3 + 4) * 2", "14"),
        ("2 ** 10 // 3", "341"),
        ("2 ** 4095 // 2 ** 4094", "2"),
        ("(-1) ** 5001", "-1"),
        ("-7 % 3", "2"),
        ("sqrt(2 ^ 4) + max(1, 2)", "6.0"),
        ("1 / 8", "0.125"),
        ("round(1234, -2)", "1200"),
        ("round(2.675, 1)", "2.7"),
        ("round(2.5)", "2"),
        ("round(1, -1000000000)", "0"),
        ("round(1, -9 ** 1000)", "0"),
        ("round(0.1, 10 ** 9)", "0.1"),
    ],
)
def test_the_calculator_computes(expression: str, value: str) -> None:
    assert Played(calculator())(f"calculate({expression!r})") == value


@pytest.mark.parametrize(
    "expression",
    [
        "9 ** 9 ** 9",
        "(-1) ** 0.5",
        "1 / 0",
        "__import__('os')",
        "x",
        "'a' * 9",
        "[1] * 9",
        "1" * 600,
        "(" * 200,
        "",
        "10.0 ** 400",
        "2 ** -9 ** 999",
        "round(1, 0.5)",
    ],
)
def test_the_calculator_refuses_what_is_no_small_number(expression: str) -> None:
    kit = calculator()
    answers = Toolbox([kit]).answer(ToolState(), "a", Toolbox([kit]).calls("a", f"calculate({expression!r})"))[1]
    assert [answer.valid for answer in answers] == [False]


def test_notes_are_kept_and_forgotten() -> None:
    say = Played(notes(most=2, characters=5))
    assert say("note('first note')").startswith("note: the note has 10 characters")
    assert [say("note('a')"), say("note('b')")] == ["kept as note 1", "kept as note 2"]
    assert say("note('c')").startswith("note: there are 2 notes")
    assert say("forget(1)") == "note 1 is gone"
    assert say("read_notes()") == "1. b"
    assert say("forget(5)") == "forget: there is no note 5; there are 1"


def test_files_are_a_tree_in_memory() -> None:
    say = Played(files({"a.txt": "one\ntwo"}, most=2, characters=20))
    assert say("list_files()") == "a.txt (7)"
    assert say("replace_in_file('a.txt', 'two', 'three')") == "replaced in a.txt"
    assert say("read_file('a.txt')") == "one\nthree"
    assert say("search_files('thr')") == "a.txt:2: three"
    assert "stands in a.txt 3 times" in say("replace_in_file('a.txt', 'e', 'x')")
    assert "20 are kept" in say(f"write_file('b.txt', {'x' * 20!r})")
    assert say("write_file('b.txt', 'x')") == "b.txt has 1 characters now"
    assert "the most that there may be" in say("write_file('c.txt', '')")
    assert "there is no file '/etc/passwd'" in say("read_file('/etc/passwd')")
    with pytest.raises(ValueError, match="20"):
        files({"a": "x" * 21}, characters=20)
    many = Played(files({"a.txt": "x\n" * 2000}), search_files=Limits(characters=100_000))
    assert many("search_files('')").count("\n") == MOST_LINES


def test_sql_reads_tables() -> None:
    say = Played(sql(TOWNS))
    assert say("schema()") == "CREATE TABLE towns (name TEXT, people INTEGER)"
    assert say("query('SELECT name FROM towns WHERE people > 1000')") == "name\nBor"
    assert say("query('SELECT * FROM towns WHERE people > 9999')") == "name | people\n(no rows)"
    assert "read only" in say("query('DELETE FROM towns')")
    assert say("query('SELECT count(*) FROM towns')").endswith("2")
    with pytest.raises(ValueError, match="script"):
        sql("CREATE nothing")


def test_sql_may_change_the_copy_of_an_episode() -> None:
    kit = sql(TOWNS, writable=True)
    say, other = Played(kit), Played(kit)
    assert say("query(\"INSERT INTO towns VALUES ('Cam', 5)\")") == "done; rows changed: 1"
    assert say("query('CREATE TABLE roads (a TEXT)')").startswith("done")
    assert say("query('SELECT count(*) AS n FROM towns')") == "n\n3"
    assert "roads" in say("schema()")
    assert other("query('SELECT count(*) AS n FROM towns')") == "n\n2"


@pytest.mark.parametrize(
    "statement",
    [
        "ATTACH DATABASE '/tmp/x.db' AS x",
        "PRAGMA writable_schema = 1",
        "SELECT load_extension('x')",
        "SELECT readfile('/etc/passwd')",
        "SELECT zeroblob(1000000000)",
        "SELECT random()",
        "VACUUM INTO '/tmp/x.db'",
        "BEGIN",
        "SELECT 1; SELECT 2",
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n",
        "SELECT",
    ],
)
@pytest.mark.parametrize("writable", [False, True])
def test_sql_reaches_nothing_but_its_tables_and_ends(statement: str, writable: bool) -> None:
    box = Toolbox([sql(TOWNS, writable=writable)])
    [answer] = box.answer(ToolState(), "a", box.calls("a", f"query({statement!r})"))[1]
    assert not answer.valid and answer.answer.startswith("query: ")


DOUBLED = "SELECT 1, 'aaaaaaaaaa' UNION ALL SELECT i + 1, t || t FROM n LIMIT 13"
LONG = f"(WITH RECURSIVE n(i, t) AS ({DOUBLED}) SELECT max(t) FROM n)"
MANY = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 5000), b AS MATERIALIZED (SELECT {} AS t)"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        (
            f"{MANY} SELECT sum(instr(t, substr(t, 1, 40000) || 'b' || n.i)) FROM b, n, n m",
            "it took too long|ended its process",
        ),
        (f"{MANY}, c AS MATERIALIZED (SELECT t || n.i AS t FROM b, n) SELECT count(DISTINCT t) FROM c", "memory"),
        (f"{MANY} SELECT t || n.i FROM b, n ORDER BY 1 DESC", "memory"),
    ],
)
@pytest.mark.parametrize("writable", [False, True])
def test_a_statement_has_limits_of_time_and_memory(statement: str, reason: str, writable: bool) -> None:
    database = Database(TOWNS, writable)
    with pytest.raises(ValueError, match=reason):
        database.query((), statement.format(LONG))
    assert database.query((), "SELECT name FROM towns")[1] == "name\nAld\nBor"


@pytest.mark.parametrize(
    "call",
    [
        "date('now')",
        "date()",
        "strftime('%s', 'NOW')",
        "strftime('%s')",
        "julianday('now')",
        "date(X'6E6F77')",
        "date(CAST(X'6E6F7700' AS TEXT))",
    ],
)
def test_sql_has_no_clock(call: str) -> None:
    with pytest.raises(ValueError, match="no clock"):
        Database(TOWNS, False).query((), f"SELECT {call}")


@pytest.mark.parametrize("default", ["CURRENT_TIMESTAMP", "(random())", "(date('now'))", "(unixepoch())"])
def test_defaults_of_columns_have_no_clock_and_no_chance(default: str) -> None:
    database = Database(TOWNS, True)
    state, _ = database.query((), f"CREATE TABLE days (a DEFAULT {default}, b)")
    with pytest.raises(ValueError, match="no clock"):
        database.query(state, "INSERT INTO days (b) VALUES (1)")


@pytest.mark.parametrize(
    ("changes", "columns"),
    [
        (["-- roads\nCREATE TABLE n (a, b)"], "a | b"),
        (["CREATE TABLE m (a, b)", "ALTER TABLE m RENAME TO n"], "a | b"),
        (["CREATE TABLE n (a, c)", "/* c */ ALTER TABLE n RENAME COLUMN c TO b"], "a | b"),
        (["CREATE TABLE n (a)", "ALTER TABLE n ADD COLUMN b NOT NULL DEFAULT 3"], "a | b"),
        (["CREATE TABLE n (a, b, c)", "ALTER TABLE n DROP COLUMN c"], "a | b"),
    ],
)
def test_changes_of_tables_are_kept(changes: Sequence[str], columns: str) -> None:
    database = Database(TOWNS, True)
    state: tuple[str, ...] = ()
    for statement in changes:
        state, _ = database.query(state, statement)
    assert database.query(state, "SELECT * FROM n")[1] == f"{columns}\n(no rows)"


def test_sql_computes_with_dates() -> None:
    calls = "date('2024-01-31', '+1 month') AS a, strftime('%m', 60) AS b, julianday('x') AS c, date(NULL) AS d"
    assert Database(TOWNS, False).query((), f"SELECT {calls}")[1] == "a | b | c | d\n2024-03-02 | 01 |  | "


def test_a_result_has_a_limit_of_characters() -> None:
    columns = ", ".join(["t"] * 1500)
    _, answer = Database(TOWNS, False).query((), f"WITH b AS (SELECT {LONG} AS t) SELECT {columns} FROM b, towns")
    text, _, note = answer.rpartition("\n")
    assert len(text) == LONGEST_RESULT and str(LONGEST_RESULT) in note


def test_search_gives_passages_by_number() -> None:
    say = Played(search(["Ald is a town.", "Bor has a mill.", "Cam lies in the north."], shown=1))
    assert say("search('mill')") == "[1] Bor has a mill."
    assert say("search('zebra')") == "Nothing has these words."
    assert say("read(2)") == "[1] Bor has a mill.\n[2] Cam lies in the north."
    assert say("read(7)").startswith("read: there is no passage 7")
    with pytest.raises(ValueError, match="passages"):
        search([])


def test_python_prints_and_keeps_names() -> None:
    say = Played(python())
    assert say("python('x = 6\\nprint(x)\\nx * 7')") == "6\n42"
    assert say("python('x + 1')") == "7"
    assert say("python('y = 1\\n1 / 0')") == "ZeroDivisionError: division by zero"
    assert say("python('y')").startswith("NameError")  # a program that failed is not kept
    assert say("python('def')").startswith("SyntaxError")
    assert say("python('x')") == "6"


@pytest.mark.slow
def test_calls_behind_one_that_takes_too_long_are_not_run() -> None:
    box = Toolbox([python()])
    text = "[python('x = 1'), python('while True: pass'), python('2'), python('3')]"
    state, answers = box.answer(ToolState(), "agent_0", box.calls("agent_0", text))
    assert [answer.valid for answer in answers] == [True, False, False, False]
    assert [answer.answer.startswith("not run") for answer in answers] == [False, False, True, True]
    assert state.calls == (("agent_0", "python", 2),)


@pytest.mark.slow
def test_python_is_confined() -> None:
    say = Played(python(keep=False))
    assert "python: it took too long" in say("python('while True: pass')")
    assert "Error" in say("python('open(\"/etc/hostname\").read()')")
    assert "Error" in say("python('import socket; socket.create_connection((\"127.0.0.1\", 80))')")
    assert say("python('import os; os._exit(3)')").startswith("python: it ended its process")


def test_what_an_episode_keeps_for_later_calls_is_bounded() -> None:
    code = f"x = {'9' * 15_000!r}"
    state, answer = Programs(True, SandboxLimits()).python((code,) * 12, code)
    assert (len(state), answer) == (13, "(it printed nothing)")
    with pytest.raises(ValueError, match=str(LONGEST_KEPT)):
        Programs(True, SandboxLimits()).python((*state, code), code)
    insert = f"INSERT INTO towns VALUES ('{'x' * 90_000}', 1)"
    changes, _ = Database(TOWNS, True).query((insert,), insert)
    assert len(changes) == 2
    with pytest.raises(ValueError, match=str(LONGEST_CHANGES)):
        Database(TOWNS, True).query(changes, insert)


def test_a_machine_without_a_sandbox_is_an_error_and_no_answer_to_an_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(source: str, limits: object) -> str:
        raise SandboxError("programs cannot be confined here")

    monkeypatch.setattr(confined, "returned", missing)
    for kit, text in ((sql(TOWNS), "query('SELECT 12345')"), (python(), "python('1')")):
        with pytest.raises(SandboxError):
            Played(kit)(text)
