"""Files of traces: whole or not there, read one at a time, and hostile ones refused in a sentence."""

from __future__ import annotations

import itertools
import json
import os
import signal
import sqlite3
import subprocess
import sys
import tracemalloc
from contextlib import closing
from pathlib import Path

import pytest
from playing import EXAMPLE, played

from llm_dec_pomdp.episodes import (
    ContentStore,
    Trace,
    TraceError,
    TraceWriter,
    check_graph,
    read,
    read_whole,
    store_of,
    validate,
    write,
)
from llm_dec_pomdp.storage.reading import FileError


@pytest.fixture(scope="module")
def trace() -> Trace:
    return played("keys-v0")[1]


def test_no_text_is_in_a_file_without_texts_or_with_references(trace: Trace, tmp_path: Path) -> None:
    for texts in ("hashed", "none"):
        write([trace], tmp_path / texts, texts)  # type: ignore[arg-type]
        assert trace["events"][1]["content"] not in (tmp_path / texts).read_text()
    assert "token_ids" not in (tmp_path / "none").read_text()


def test_a_store_holds_every_text_once(trace: Trace, tmp_path: Path) -> None:
    write([trace] * 5, tmp_path / "t", "hashed")
    with closing(sqlite3.connect(store_of(tmp_path / "t"))) as file:
        [(count,)] = file.execute("SELECT count(*) FROM content").fetchall()
    texts = {json.dumps(event["content"]) for event in trace["events"] if "content" in event}
    assert count == len(texts)
    with ContentStore(store_of(tmp_path / "t")) as store:
        assert [validate(trace, store=store) for trace in read(tmp_path / "t")] == [[]] * 5


def test_a_text_that_was_changed_in_the_store_does_not_resolve(trace: Trace, tmp_path: Path) -> None:
    write([trace], tmp_path / "t", "hashed")
    with closing(sqlite3.connect(store_of(tmp_path / "t"))) as file, file:
        file.execute("UPDATE content SET text = ? WHERE text = ?", (b"x", trace["events"][1]["content"].encode()))
    with pytest.raises(TraceError, match="event 'e1', field content_ref: 'sha256:"):
        list(read_whole(tmp_path / "t"))
    store_of(tmp_path / "t").write_bytes(b"no database" * 100)
    with pytest.raises(TraceError, match="is damaged"):
        list(read_whole(tmp_path / "t"))


def test_lone_surrogates_and_nul_come_back(trace: Trace, tmp_path: Path) -> None:
    other = json.loads(json.dumps(trace))
    other["events"][1]["content"] = "a\ud800\0b"
    for texts in ("inline", "hashed"):
        write([other], tmp_path / texts, texts, token_ids=True)  # type: ignore[arg-type]
        assert list(read_whole(tmp_path / texts)) == [other]


def test_a_file_that_is_there_is_not_written_over(trace: Trace, tmp_path: Path) -> None:
    write([trace], tmp_path / "t")
    with pytest.raises(FileExistsError, match="give a new file"):
        TraceWriter(tmp_path / "t")


def test_an_export_that_fails_leaves_nothing(trace: Trace, tmp_path: Path) -> None:
    def broken() -> itertools.chain[Trace]:
        return itertools.chain([trace], (1 / 0 for _ in "x"))  # type: ignore[return-value]

    for texts in ("inline", "hashed"):
        with pytest.raises(ZeroDivisionError):
            write(broken(), tmp_path / "t", texts)  # type: ignore[arg-type]
        assert list(tmp_path.iterdir()) == []


def test_a_killed_export_leaves_no_file_of_that_name_and_the_next_one_cleans_up(trace: Trace, tmp_path: Path) -> None:
    (tmp_path / "in.json").write_text(json.dumps(trace))
    code = (
        "import json, os, signal, sys; from pathlib import Path; from llm_dec_pomdp.episodes import TraceWriter\n"
        "place = Path(sys.argv[1]); trace = json.loads((place / 'in.json').read_text())\n"
        "with TraceWriter(place / 't', 'hashed') as writer:\n"
        "    for _ in range(200): writer.write(trace)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], timeout=60, check=False)
    assert done.returncode == -signal.SIGKILL
    assert not (tmp_path / "t").exists()
    assert not store_of(tmp_path / "t").exists()
    write([trace], tmp_path / "t", "hashed")
    assert sorted(os.listdir(tmp_path)) == ["in.json", "t", "t.content.sqlite"]  # noqa: PTH208


def test_writing_and_reading_need_memory_for_one_trace(trace: Trace, tmp_path: Path) -> None:
    def peak(count: int) -> int:
        tracemalloc.start()
        write(itertools.repeat(trace, count), tmp_path / str(count), "hashed")
        assert sum(1 for _ in read_whole(tmp_path / str(count))) == count
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return peak

    peak(2)
    assert peak(100) < 1.2 * peak(10)


# --- what others have written -----------------------------------------------------------------------------------------


def test_a_document_over_many_lines_is_read(tmp_path: Path) -> None:
    assert [t["trace_id"] for t in read(EXAMPLE)] == ["demo-trace-001"]
    check_graph(next(read(EXAMPLE)))


HOSTILE = {
    "empty": (b"", "it is no JSON"),
    "words": (b"hello\n", "it is no JSON"),
    "cut off": (b'{"trace_id": "x", "events": [\n', "it is no JSON"),
    "bytes": (b"\xff\xfe\x00{}\n", "it is no JSON"),
    "a list": (b"[1, 2]\n", "line 1: it is a list"),
    "deep": (b"[" * 100_000, "it is no JSON"),
    "many digits": (b'{"t": ' + b"9" * 10_000 + b"}\n", "it is no JSON"),
}


@pytest.mark.parametrize(("content", "sentence"), HOSTILE.values(), ids=HOSTILE)
def test_what_is_no_trace_is_refused(content: bytes, sentence: str, tmp_path: Path) -> None:
    (tmp_path / "t").write_bytes(content)
    with pytest.raises(ValueError, match=sentence):
        list(read(tmp_path / "t"))


def test_the_line_that_is_no_trace_is_named(trace: Trace, tmp_path: Path) -> None:
    write([trace], tmp_path / "t")
    with (tmp_path / "t").open("a") as file:
        file.write("{}\n{\n")
    with pytest.raises(FileError, match="line 3: it is no JSON"):
        list(read(tmp_path / "t"))


@pytest.mark.parametrize("beginning", [b'{"trace_id": "', b"{\n"], ids=["one line", "many lines"])
def test_a_gigabyte_is_refused_without_reading_it(beginning: bytes, tmp_path: Path) -> None:
    with (tmp_path / "t").open("wb") as file:
        file.write(beginning)
        file.truncate(1 << 30)  # a hole: it takes no room
    with pytest.raises(FileError, match=r"line [12]: it is longer than"):
        list(read(tmp_path / "t"))


def test_a_store_that_is_a_program_is_not_run(trace: Trace, tmp_path: Path) -> None:
    write([trace], tmp_path / "t", "hashed")
    with closing(sqlite3.connect(store_of(tmp_path / "t"))) as file, file:
        file.execute("DROP TABLE content")
        endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i AS digest, i AS text FROM n"
        file.execute(f"CREATE VIEW content AS {endless}")
    with pytest.raises(TraceError, match="is damaged"):
        list(read_whole(tmp_path / "t"))


@pytest.mark.parametrize("beside", [False, True], ids=["traces", "texts"])
def test_a_pipe_in_the_place_of_a_file_is_refused(beside: bool, trace: Trace, tmp_path: Path) -> None:
    write([trace], tmp_path / "t", "hashed")
    path = store_of(tmp_path / "t") if beside else tmp_path / "t"
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(FileError, match="is not a regular file"):
        list(read_whole(tmp_path / "t"))
