"""A key that a server repeats stands in no file."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from servers import Server, reply, serving
from typer.testing import CliRunner

import llm_dec_pomdp
from llm_dec_pomdp.agents import Remote, Request, Sampling
from llm_dec_pomdp.cli import app
from llm_dec_pomdp.episodes import ContentStore, Header, TraceWriter
from llm_dec_pomdp.storage import secrets
from llm_dec_pomdp.storage.files import Draft, replace, replace_json, verify
from llm_dec_pomdp.storage.runfolder import append
from llm_dec_pomdp.types import Completion, Episode, Turn, conversation

KEY = 'sk-a/"qzvoted"<&key'
FORMS = (KEY, json.dumps(KEY)[1:-1], "sk-a\\/", "sk-a/&quot;qzvoted&quot;&lt;&amp;key")


@pytest.fixture
def server() -> Iterator[Server]:
    yield from serving()


def holds_it(content: str) -> bool:
    return any(form in content for form in FORMS) or "qzvoted" in content


def test_whatever_is_stored_has_a_mask_in_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    text = f"your key is {KEY}."
    append(tmp_path / "log.jsonl", {"text": text})
    replace_json(tmp_path / "cell.json", {KEY: [text]})
    replace(tmp_path / "report.html", f"<p>{FORMS[3]}</p> {KEY}".encode())
    turn = Turn({"agent_0": text}, {"agent_0": Completion(text)}, 0.0)
    env = llm_dec_pomdp.make("tldr-v0")
    with TraceWriter(tmp_path / "step-0.jsonl") as writer:
        writer.write_episode(Episode(env.items[0].id, 0, (turn,), True), Header.of(env), env.items[0])
    with Draft(tmp_path / "step") as draft:
        draft.write_json("state.json", {"options": {"key": KEY}})
        draft.publish()
    verify(tmp_path / "step")
    with ContentStore(tmp_path / "texts.sqlite", new=True) as store:
        reference = store.put(text)
    with ContentStore(tmp_path / "texts.sqlite") as store:
        assert store.get(reference) == "your key is [key]."
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert [path.name for path in files if holds_it(path.read_bytes().decode(errors="replace"))] == []
    assert json.loads((tmp_path / "log.jsonl").read_text()) == {"text": "your key is [key]."}
    assert list(json.loads((tmp_path / "cell.json").read_text())) == ["[key]"]


def test_a_key_given_in_python_is_masked_in_what_its_server_says(server: Server) -> None:
    server.answer = lambda body, number: reply(f"your key is {KEY}")
    remote = Remote(server.url, "m", api_key=KEY.replace(" ", ""))
    [[completion]] = remote.generate([Request("a", conversation("hello"))], Sampling())
    assert completion.text == "your key is [key]"
    assert server.headers[0]["Authorization"] == f"Bearer {KEY}"
    secrets._given.discard(KEY)  # pyright: ignore[reportPrivateUsage]


def test_a_run_with_a_server_that_repeats_its_key_has_it_in_no_file(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    server.answer = lambda body, number: reply(f"A text, and your key {KEY}.")
    given = ["eval", "tldr-v0", "--model", f"{server.url}#m", "--items", "2"]
    done = CliRunner().invoke(app, [*given, "--out", str(tmp_path / "run")])
    assert done.exit_code == 0, done.output
    files = [path for path in (tmp_path / "run").rglob("*") if path.is_file()]
    assert [path.name for path in files if holds_it(path.read_bytes().decode(errors="replace"))] == []
    [episodes] = (tmp_path / "run").rglob("step-*.jsonl")
    assert "your key [key]." in episodes.read_text()
    assert not holds_it(done.output)


def test_without_a_secret_and_with_a_word_as_a_key_nothing_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in secrets.VARIABLES:
        monkeypatch.delenv(name, raising=False)
    content = b'{"text": "EMPTY"}'
    assert secrets.masked(content) is content
    monkeypatch.setenv("OPENAI_API_KEY", "EMPTY")
    assert secrets.masked(content) is content
