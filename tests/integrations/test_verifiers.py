"""Environments as those of verifiers, played by `vf-eval` against a server of this test (`nox -s verifiers`)."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from llm_dec_pomdp.envs.relay import WORDS

pytest.importorskip("verifiers", reason="verifiers is not installed: pip install -e '.[verifiers]'")
if shutil.which("uv", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}") is None:
    pytest.skip("no uv, which the chat program of verifiers needs: pip install uv", allow_module_level=True)

from llm_dec_pomdp.integrations.verifiers import write_package

Say = Callable[[str], str]
CALL = "call "  # what a text begins with that is the name of a tool

BOARD = '''
import llm_dec_pomdp
from llm_dec_pomdp.envs.tools import kit
from llm_dec_pomdp.envs.wrappers import WithTools

def pin(state: tuple[str, ...], word: str) -> tuple[tuple[str, ...], str]:
    """Pin a word to the board."""
    return (*state, word), "pinned"

def read_board(state: tuple[str, ...]) -> tuple[tuple[str, ...], str]:
    """Read the board."""
    return state, " ".join(state) or "nothing"

def build(**options):
    task = llm_dec_pomdp.make("relay-v0", n_agents=2, **options)
    task = task.with_items(task.items[::12])  # one of each word
    return WithTools(task, [kit("board", pin, read_board, initial=())], rounds=3)

def speaker(agent, history):
    word = history[0].text.partition("The word is ")[2].partition(".")[0]
    return f'pin("{word}")' if len(history) == 1 else "pass"
'''


@contextlib.contextmanager
def answering(say: Say) -> Iterator[str]:
    """The address of a server that streams what `say` makes of the last message."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            message = body["messages"][-1]["content"]
            text = say(message if isinstance(message, str) else "".join(part["text"] for part in message))
            delta: dict[str, Any] = {"role": "assistant", "content": text}
            if text.startswith(CALL):
                call = {"name": text.removeprefix(CALL), "arguments": "{}"}
                delta = {
                    "role": "assistant",
                    "tool_calls": [{"index": 0, "id": "1", "type": "function", "function": call}],
                }
            reason = "tool_calls" if text.startswith(CALL) else "stop"
            usage = {"prompt_tokens": 3, "completion_tokens": 1, "total_tokens": 4}
            of_all = {"id": "1", "object": "chat.completion.chunk", "created": 0, "model": body["model"]}
            chunks: list[dict[str, Any]] = [
                {**of_all, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]},
                {**of_all, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}], "usage": usage},
            ]
            content = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n\n"
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.end_headers()
            self.wfile.write(content.encode())

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        server.server_close()


def played(folder: Path, package: Path, url: str, *options: str) -> list[dict[str, Any]]:
    """The episodes that `vf-eval` writes about two tasks."""
    scripts = Path(sys.executable).parent
    command = [str(scripts / "vf-eval"), next(package.glob("*.py")).stem, *"--no-push --model any".split()]
    command += ["--client.base-url", url]
    command += ["--client.api-key-var", "SOME_API_KEY", "--select.limit", "2", "--output-dir", str(folder), *options]
    path = os.pathsep.join([str(package), *sys.path])
    given = {**os.environ, "PYTHONPATH": path, "SOME_API_KEY": "x", "PATH": f"{scripts}:{os.environ['PATH']}"}
    subprocess.run([*command, "--run.name", "run"], env=given, check=True, timeout=300, capture_output=True)
    return [json.loads(line) for line in (folder / "run" / "traces.jsonl").read_text(encoding="utf-8").splitlines()]


def knows(observation: str) -> str:
    """Says a word that it is told, and nothing else."""
    return next((word for word in WORDS if word in observation), "pass")


@pytest.mark.slow
def test_vf_eval_plays_a_team_and_every_trace_has_the_joint_reward(tmp_path: Path) -> None:
    package = write_package("relay-v0", tmp_path / "relay-v0", protocol="sequential")
    with answering(knows) as url:
        episodes = played(tmp_path / "out", package, url, "--env.taskset.split", "all")
    assert [episode["errors"] for episode in episodes] == [[], []]
    for episode in episodes:
        assert {trace["agent"]["name"] for trace in episode["traces"]} == {"speaker_1", "speaker_2", "listener"}
        assert [trace["rewards"]["return"]["score"] for trace in episode["traces"]] == [1.0] * 3
        assert [trace["metrics"] for trace in episode["traces"]] == [{"reward/right": 1.0}] * 3
        [listener] = [trace for trace in episode["traces"] if trace["agent"]["name"] == "listener"]
        assert "Already written by the others" in listener["nodes"][0]["message"]["content"]


@pytest.mark.slow
def test_turns_are_one_conversation(tmp_path: Path) -> None:
    package = write_package("tldr-v0", tmp_path / "tldr-v0", max_turns=2)
    with answering(lambda observation: "a few words") as url:
        episodes = played(tmp_path / "out", package, url)
    for trace in (trace for episode in episodes for trace in episode["traces"]):
        texts = [node["message"]["content"] for node in trace["nodes"] if node["message"]["role"] == "assistant"]
        assert texts == ["a few words"] * 2
        assert trace["rewards"]["return"]["score"] == 0.0


@pytest.mark.slow
def test_rollouts_of_a_role_with_tools_share_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "board.py").write_text(BOARD, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    package = write_package("board:build", tmp_path / "package", role="listener", others="board:speaker")
    options = ("--env.taskset.split", "all", "--select.limit", "4", "--num-rollouts", "2")

    def reads(observation: str) -> str:
        return observation if observation in WORDS else CALL + "read_board"

    with answering(reads) as url:
        episodes = played(tmp_path / "out", package, url, *options)
    assert [episode["errors"] for episode in episodes] == [[]] * 8
    assert [trace["rewards"]["episode_return"]["score"] for e in episodes for trace in e["traces"]] == [1.0] * 8


@pytest.mark.slow
def test_a_server_that_fails_is_an_error_of_the_episode_and_no_reward(tmp_path: Path) -> None:
    package = write_package("relay-v0", tmp_path / "relay-v0")
    episodes = played(tmp_path / "out", package, "http://127.0.0.1:9/v1", "--select.limit", "1")
    assert "returned no action in turn 0" in episodes[0]["errors"][0]["message"]
    assert not any("return" in trace["rewards"] for trace in episodes[0]["traces"])


def test_a_package_is_written_once_and_of_something_known(tmp_path: Path) -> None:
    write_package("tldr-v0", tmp_path / "new")
    with pytest.raises(FileExistsError):
        write_package("tldr-v0", tmp_path / "new")
    with pytest.raises(KeyError, match="did you mean tldr-v"):
        write_package("tlrd-v0", tmp_path / "other")
    assert not (tmp_path / "other").exists()
