"""`doctor --device`: checks of a device, which a processor passes and a broken one does not, and speeds."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

from llm_dec_pomdp.agents.base import Team
from llm_dec_pomdp.agents.io.models import load_model
from llm_dec_pomdp.agents.shapes import SHAPES, random_model
from llm_dec_pomdp.benchmarks import device_checks, device_speed
from llm_dec_pomdp.benchmarks.device_checks import DeviceChecks, Finding, Precision
from llm_dec_pomdp.cli import app

PUBLISHED = {"SmolLM2-135M": 0.1345, "Qwen3-0.6B": 0.596, "Qwen3-1.7B": 1.721, "Qwen3-8B": 8.191}  # billions of weights


@pytest.mark.slow
def test_a_processor_is_like_itself() -> None:
    found = {finding.name: finding for finding in DeviceChecks("cpu", "builtin:tiny").all()}
    not_here = {"too little memory"} | {
        name
        for name, library in {"four bits": "bitsandbytes", "vllm in this process": "vllm"}.items()
        if importlib.util.find_spec(library) is None
    }
    assert {name: finding.holds for name, finding in found.items() if not finding.holds} == dict.fromkeys(not_here)
    assert found["gradients, adapters, bfloat16"].figures["relative error"] > 0.001  # it was computed in 16 bits


class Broken(DeviceChecks):
    """A device that multiplies one weight of every model by two, and has no processes."""

    def team(self, precision: Precision, device: str | None = None, **options: Any) -> Team:
        team = super().team(precision, device, **options)
        if device is None:
            with torch.no_grad():
                next(iter(team.policies[0].parameters())).mul_(2)
        return team

    def worker_process(self) -> Finding:
        raise OSError("no processes here")


@pytest.mark.slow
def test_a_device_that_computes_something_else_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    device = Broken("cpu", "builtin:tiny")
    float32 = device.precisions[0]
    assert not device.log_probabilities(float32).holds
    assert not device.gradients(float32).holds
    assert device.teacher_forcing(float32).holds  # it is at least consistent
    for name in ("alone_and_in_a_batch", "adapters_apart", "checkpoint_there_and_back", "ranks"):
        monkeypatch.setattr(device, name, device.too_little_memory)
    device.precisions = []
    raised = next(finding for finding in device.all() if finding.name == "worker process")
    assert (raised.holds, raised.meaning) == (False, "it raised OSError: no processes here")


@pytest.mark.slow
def test_speeds_of_texts_and_updates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_speed, "_AT_ONCE", {"cpu": (4,)})
    monkeypatch.setattr(device_speed, "_LEARNT", {"cpu": (4,)})
    monkeypatch.setattr(device_speed, "_SIDE", {"cpu": 64})
    monkeypatch.setattr(device_speed, "_PROMPT_TOKENS", 10)
    product, *rows = device_speed.speeds("cpu", "builtin:tiny", new_tokens=3)
    assert product["operations_per_s"] > 0
    assert [(row["what"], row["weights"]) for row in rows] == [
        (what, weights) for weights in ("all weights", "adapters") for what in ("texts", "update")
    ]
    assert all(row["tokens_per_s"] > 0 for row in rows)


def holding(checks: DeviceChecks) -> Iterator[Finding]:
    yield Finding("a check", True, {"gap": 0.5})


@pytest.mark.slow
def test_a_speed_that_cannot_be_measured_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*arguments: Any) -> dict[str, Any]:
        raise RuntimeError("no kernel image")

    monkeypatch.setattr(device_speed, "_drawing", broken)
    monkeypatch.setattr(device_speed, "_learning", broken)
    monkeypatch.setattr(device_checks.DeviceChecks, "all", holding)
    found = CliRunner().invoke(app, ["doctor", "--device", "cpu", "--json"])
    assert found.exit_code == 1
    document = json.loads(found.stdout)
    assert document["checks"] == [{"name": "a check", "holds": True, "figures": {"gap": 0.5}, "meaning": ""}]
    assert {row["failed"] for row in document["speeds"][1:]} == {"RuntimeError: no kernel image"}


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("--device", "zoo"), "'zoo'"),
        (("--device", "cpu", "--shape", "Qwen3-1.8B"), "Qwen3-1.7B"),
        (("--device", "cpu", "--model", "random:Qwen3-1.7B"), "--shape"),
        (("--device", "cpu", "--only", "always_equal"), "--only"),
    ],
)
def test_what_cannot_be_examined_is_named(words: tuple[str, ...], named: str) -> None:
    found = CliRunner().invoke(app, ["doctor", *words])
    assert (found.exit_code, named in found.stderr) == (2, True)


@pytest.mark.parametrize("shape", PUBLISHED)
def test_shapes_have_the_published_number_of_weights(shape: str) -> None:
    tokenizer = load_model("builtin:tiny", device="cpu")[1]
    model = random_model(shape, tokenizer, device="meta", dtype=torch.bfloat16, seed=0)
    assert sum(p.numel() for p in model.parameters()) / 1e9 == pytest.approx(PUBLISHED[shape], rel=1e-3)
    assert shape in SHAPES
