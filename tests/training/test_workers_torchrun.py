"""A model over two machines learns as one in a single process; a machine that is lost ends the run with a sentence.

The machines are network namespaces of Linux, joined by a cable (veth).
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file  # pyright: ignore[reportUnknownVariableType]
from torch import distributed
from waiting import wait_until

from llm_dec_pomdp.config import ConfigError
from llm_dec_pomdp.training.workers import torchrun

HERE = "10.77.41.1"
RUN = "train tldr-v0 --model builtin:tiny --sharing shared --prompts 3 --group-size 8 --max-new-tokens 24"
RATE = 5e-4  # of the run


class Hosts:
    """Two machines, a and b, and what runs on them."""

    def __init__(self) -> None:
        self.names = [f"ldp-{os.getpid()}-{letter}" for letter in "ab"]
        self.nodes: list[subprocess.Popen[str]] = []

    def connect(self) -> None:
        for name in self.names:
            ip(f"netns add {name}")
        ip(f"link add cable netns {self.names[0]} type veth peer name cable netns {self.names[1]}")
        for number, name in enumerate(self.names, 1):
            ip(f"-n {name} addr add 10.77.41.{number}/24 dev cable")
            ip(f"-n {name} link set lo up")
            ip(f"-n {name} link set cable up")

    def torchrun(self, words: Sequence[str]) -> list[subprocess.Popen[str]]:
        """torchrun on both machines, with the command of their only rank."""
        settings = {"GLOO_SOCKET_IFNAME": "cable", "OMP_NUM_THREADS": "1", "RES_OPTIONS": "timeout:1 attempts:1"}
        for number, name in enumerate(self.names, 1):
            options = f"--nnodes 2 --nproc-per-node 1 --rdzv-backend c10d --rdzv-endpoint {HERE}:29400 --rdzv-conf "
            options += f"is_host={int(number == 1)} --local-addr 10.77.41.{number} -m llm_dec_pomdp"
            command = ["ip", "netns", "exec", name, sys.executable, "-m", "torch.distributed.run", *options.split()]
            node = subprocess.Popen(
                [*command, *words], env={**os.environ, **settings}, stderr=subprocess.PIPE, text=True
            )
            self.nodes.append(node)
        return self.nodes[-2:]

    def run(self, words: Sequence[str]) -> list[str]:
        """What both machines say of a command that they end."""
        nodes = self.torchrun(words)
        errors = [node.communicate()[1] for node in nodes]
        assert [node.returncode for node in nodes] == [0, 0], errors
        return errors

    def remove(self) -> None:
        for name in self.names:
            pids = subprocess.run(["ip", "netns", "pids", name], capture_output=True, text=True, check=False).stdout
            subprocess.run(["kill", "-9", *pids.split()], stderr=subprocess.DEVNULL, check=False)
            subprocess.run(["ip", "netns", "del", name], stderr=subprocess.DEVNULL, check=False)
        for node in self.nodes:
            node.wait()
            assert node.stderr is not None
            node.stderr.close()


def ip(words: str) -> None:
    done = subprocess.run(["ip", *words.split()], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"no network namespaces here: ip {words}: {done.stderr.strip()}")


@pytest.fixture
def hosts() -> Generator[Hosts]:
    if shutil.which("ip") is None:
        pytest.skip("no network namespaces here: there is no command ip")
    machines = Hosts()
    try:
        machines.connect()
        yield machines
    finally:
        machines.remove()


def results(folder: Path) -> tuple[list[dict[str, Any]], dict[str, torch.Tensor], dict[str, torch.Tensor]]:
    """Steps, weights, and what the optimizer keeps, of a run of one cell."""
    [cell] = folder.glob("cells/*")
    steps = [json.loads(line) for line in (cell / "train.jsonl").read_text().splitlines()]
    [weights], [state] = cell.glob("team/*/model.safetensors"), cell.glob("checkpoints/*2/state.safetensors")
    return steps, load_file(weights), load_file(state)


@pytest.mark.slow
def test_two_machines_learn_and_go_on_as_one_process_and_the_first_one_writes(hosts: Hosts, tmp_path: Path) -> None:
    there, here, words = tmp_path / "there", tmp_path / "here", [*RUN.split(), "--items", "1"]
    errors = hosts.run([*words, "--steps", "1", "--load", "ranks=2", "--executor", "torchrun", "--out", str(there)])
    assert ["tldr-v0 magrpo 0: train" in error for error in errors] == [True, False]
    hosts.run(["train", "--resume", str(there), "--steps", "2", "--executor", "torchrun"])
    subprocess.run([sys.executable, "-m", "llm_dec_pomdp", *words, "--steps", "2", "--out", str(here)], check=True)
    (steps, weights, state), (wanted, expected, kept) = results(there), results(here)
    assert len(steps) == 2
    assert steps[0]["metrics"]["grad_norm"] > 1  # which was scaled down to 1
    for step, other in zip(steps, wanted, strict=True):
        assert step["mean_return"] == other["mean_return"]
        largest = [metrics.pop("sampler_gap_max") for metrics in (step["metrics"], other["metrics"])]
        assert max(largest) < 2e-5  # the largest rounding error, which depends on the number of threads
        assert step["metrics"] == pytest.approx(other["metrics"], rel=2e-5, abs=3e-6)
    for name, tensor in kept.items():
        if name.endswith("exp_avg"):  # a tenth of the gradient, at most
            torch.testing.assert_close(state[name], tensor, atol=3e-7, rtol=0)
    for name, tensor in expected.items():  # Adam gives gradients of about 0 the step of large ones
        assert (weights[name] - tensor).abs().mean() < 0.01 * RATE, name


@pytest.mark.slow
def test_a_machine_that_is_lost_without_a_word_ends_the_run(hosts: Hosts, tmp_path: Path) -> None:
    words = [*RUN.split(), "--steps", "5000", "--items", "1", "--save-every", "1"]
    first, _ = hosts.torchrun([*words, "--load", "ranks=2", "--executor", "torchrun", "--out", str(tmp_path / "run")])
    wait_until(lambda: any(tmp_path.glob("run/cells/*/checkpoints/step-*")), first)
    ip(f"-n {hosts.names[1]} link set cable down")
    errors = first.communicate(timeout=300)[1]
    assert "error: rank 1 on " in errors
    assert "train --resume RUN --executor torchrun" in errors
    assert "Traceback" not in errors.partition("error: rank 1 on ")[0]


@pytest.mark.slow
def test_ranks_that_differ_in_their_arguments_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    store: Any = distributed.TCPStore(  # pyright: ignore[reportPrivateImportUsage]
        "127.0.0.1", 0, is_master=True, wait_for_workers=False
    )
    world = {"TORCHELASTIC_RUN_ID": "x", "TORCHELASTIC_RESTART_COUNT": "0", "RANK": "0", "WORLD_SIZE": "2"}
    for name, value in {**world, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(store.port)}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "argv", ["x", "train", "tldr-v0", "--executor", "torchrun", "--steps", "2"])
    other = [sys.executable, "-m", "llm_dec_pomdp", *sys.argv[1:-1], "3"]
    rank = subprocess.Popen(other, env={**os.environ, "RANK": "1"}, stderr=subprocess.PIPE, text=True)
    torchrun.joined.cache_clear()
    with pytest.raises(ConfigError, match=r"rank 1 on .* differs from rank 0 .*'2'\] -> .*'3'\]"):
        torchrun.take_part()
    assert "error: rank 1 ends, since rank 0 has ended" in rank.communicate(timeout=60)[1]
    assert rank.returncode == 1


def test_what_does_not_fit_the_processes_of_torchrun_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="torchrun has not started this process"):
        torchrun.take_part()
    for name, value in {"TORCHELASTIC_RUN_ID": "x", "RANK": "0", "WORLD_SIZE": "2"}.items():
        monkeypatch.setenv(name, value)
    torchrun.check_ranks([1, 2])
    for ranks in ([1], [2, 3]):
        with pytest.raises(ConfigError, match=r"started 2 processes, and the models have ranks \["):
            torchrun.check_ranks(ranks)
