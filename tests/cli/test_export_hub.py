"""`export --hub` against a server that keeps the hub's contract."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Generator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import constants
from typer.testing import CliRunner

from llm_dec_pomdp.cli import app

TRAIN = ["--steps", "1", "--prompts", "1", "--group-size", "2", "--items", "1", "--max-new-tokens", "4"]


class Hub(BaseHTTPRequestHandler):
    """Keeps what is committed."""

    kept: dict[str, bytes]
    refuses: bool = False

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        if self.refuses:
            self._answer(403, {"error": "You have no right to this namespace."})
        elif self.path.endswith("/repos/create"):
            asked = json.loads(body)
            assert asked.get("private") or asked.get("visibility") == "private", asked
            self._answer(200, {"url": f"https://huggingface.co/{asked['organization']}/{asked['name']}"})
        elif "/preupload/" in self.path:
            files = json.loads(body)["files"]
            kinds = [{"path": f["path"], "uploadMode": "regular", "shouldIgnore": False} for f in files]
            self._answer(200, {"files": kinds})
        else:
            assert "/commit/" in self.path
            for line in map(json.loads, body.splitlines()):
                if line["key"] == "file":
                    type(self).kept[line["value"]["path"]] = base64.b64decode(line["value"]["content"])
            url = "https://huggingface.co/me/team/commit/" + "0" * 40
            self._answer(200, {"success": True, "commitOid": "0" * 40, "commitUrl": url})

    def do_GET(self) -> None:
        self._answer(404, {"error": "nothing here"})

    def _answer(self, status: int, body: dict[str, Any]) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Nothing."""


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Generator[type[Hub]]:
    kind = type("Kept", (Hub,), {"kept": {}})
    server = ThreadingHTTPServer(("127.0.0.1", 0), kind)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    monkeypatch.setattr(constants, "ENDPOINT", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setenv("HF_TOKEN", "hf_test")
    yield kind
    server.shutdown()
    server.server_close()


@pytest.mark.slow
def test_a_team_is_uploaded_as_it_was_exported_or_stays_here(hub: type[Hub], tmp_path: Path) -> None:
    run, place = tmp_path / "run", tmp_path / "team"
    assert (
        CliRunner().invoke(app, ["train", "tldr-v0", "--model", "builtin:tiny", *TRAIN, "--out", str(run)]).exit_code
        == 0
    )
    found = CliRunner().invoke(app, ["export", str(run), str(place), "--hub", "me/team"])
    assert found.exit_code == 0, found.stderr
    assert "me/team" in found.stdout
    here = {str(p.relative_to(place)): p.read_bytes() for p in place.rglob("*") if p.is_file()}
    assert hub.kept == here
    assert {"agent_0/model.safetensors", "agent_1/README.md"} <= here.keys()

    hub.refuses = True
    again = CliRunner().invoke(app, ["export", str(run), str(tmp_path / "again"), "--hub", "me/team"])
    assert (again.exit_code, "no right to this namespace" in again.stderr or "403" in again.stderr) == (1, True)
    assert (tmp_path / "again" / "agent_0" / "model.safetensors").is_file()
