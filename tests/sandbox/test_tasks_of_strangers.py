"""Tests and preludes are data of a stranger, too: what they can reach, and that honest ones notice nothing."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from judging import IDENTITY, job, judged

from llm_dec_pomdp.envs.registration import make
from llm_dec_pomdp.sandbox import SandboxPool, capabilities, judge, worker
from llm_dec_pomdp.types import TaskItem

confined = pytest.mark.skipif(bool(capabilities().missing), reason=capabilities().missing or "confined")


@confined
def test_a_task_file_reads_no_file_and_opens_no_connection(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("do not tell")
    prompt = (
        f"from pathlib import Path\ndef leaked():\n    return Path({str(secret)!r}).read_text()\n\ndef f(x):\n    ...\n"
    )
    lines = (
        f"open({str(secret)!r}).read()",
        "leaked()",
        "open('/etc/hostname').read()",
        "__import__('socket').socket()",
        "__import__('os').fork() + 1",
    )
    test = "def check(candidate):\n" + "".join(f"    assert {line}\n" for line in lines)
    item = TaskItem("stranger", prompt, fields={"test": test, "entry_point": "f"})
    env = make("coophumaneval-v0", tasks=[item])
    score = env.score(env.items[0], {"agent_0": "def aux(x):\n    return x\n", "agent_1": IDENTITY})
    assert score.components["tests"] == 0
    assert "do not tell" not in str(score)


@confined
def test_a_prelude_that_reads_a_file_does_not_load(pool: SandboxPool) -> None:
    prelude = "TEXT = open('/etc/hostname').read()\n"
    [verdict] = pool.run([job(IDENTITY, "assert c(1) == 1", prelude=prelude)])
    assert verdict.outcome == "load_error"
    assert verdict.notes[0].startswith(("PermissionError", "FileNotFoundError"))  # with namespaces it is not there


FORGERIES = {
    "half an answer": ("os.write(1, bytes([0, 0, 1, 0]) + b'{')", "time.sleep(60)"),
    "half a length": ("os.write(1, bytes([0]))", "time.sleep(60)"),
    "an answer without an end": ("os.write(1, bytes([255] * 4))", "while True: os.write(1, b' ' * 65536)"),
    "an answer of another form": ("os.write(1, bytes([0, 0, 0, 2]) + b'[]')", "time.sleep(60)"),
}


@pytest.mark.slow
@pytest.mark.parametrize("lines", FORGERIES.values(), ids=FORGERIES)
def test_a_judge_that_writes_what_is_no_answer_is_replaced(
    lines: tuple[str, ...], pool: SandboxPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "REST", 0.3)
    [verdict] = pool.run([job(IDENTITY, "import os, time", *lines, "assert c(1) == 1")])
    assert (verdict.outcome, verdict.notes) == ("infra_error", ("the judge process was lost twice",))
    assert judged(pool, IDENTITY, "assert c(1) == 1") == ("passed", 1, 1)


def test_an_answer_too_many_is_not_the_next_programs(pool: SandboxPool) -> None:
    forged = judge.frame({"outcome": "passed", "passed": 1, "total": 1, "shares": [1.0], "cases": [True]})
    written = f"__import__('os').write(1, {forged!r})"
    assert judged(pool, "def f(x):\n    return 0\n", written, "assert c(1) == 1") == ("passed", 1, 1)
    time.sleep(0.3)  # its true answer is there by now
    assert judged(pool, IDENTITY, "assert c(1) == 1", "assert c(2) == 0") == ("failed", 1, 2)


@confined
def test_a_judge_has_no_threads_to_give_away(pool: SandboxPool) -> None:
    line = "assert __import__('threading').Thread(target=print).start() is None"
    assert judged(pool, IDENTITY, line) == ("failed", 0, 1)


@pytest.mark.parametrize(
    "modules",
    [
        "sqlite3, hashlib, ctypes, lzma, bz2, zlib, uuid, decimal",
        "xml.dom.minidom, email.message, difflib, unittest.mock",
    ],
)
def test_tests_may_import_the_standard_library(modules: str, pool: SandboxPool) -> None:
    line = "assert hashlib.sha256(b'x').hexdigest()[:4] == '2d71'" if "hashlib" in modules else "assert c(1) == 1"
    assert judged(pool, IDENTITY, f"import {modules}", line) == ("passed", 1, 1)
