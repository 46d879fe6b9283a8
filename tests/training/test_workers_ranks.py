"""A model over two ranks learns as one in a single process, and what it saves fits any number of ranks."""

from __future__ import annotations

import os
import pickle
import signal
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
import torch
from models import AGENTS, save_model

from llm_dec_pomdp.agents.base import Request, Sampling, Team
from llm_dec_pomdp.agents.io.load import load_team
from llm_dec_pomdp.algorithms.options import UpdaterOptions
from llm_dec_pomdp.algorithms.samples import Sample
from llm_dec_pomdp.algorithms.updater import updaters_of
from llm_dec_pomdp.training.workers import WorkerLostError
from llm_dec_pomdp.training.workers.process import Processes
from llm_dec_pomdp.training.workers.ranks import Ranks
from llm_dec_pomdp.types import Completion, conversation

FIVE = [
    Sample(AGENTS[number % 2], Completion("x", prompt, ids, (-1.0,) * len(ids)), advantage)
    for number, (prompt, ids, advantage) in enumerate(
        [
            ((5, 6), (7, 8, 2), 1.0),
            ((9,), (10, 2), -0.5),
            ((5, 6), (8, 2), 0.25),
            ((7,), (6,), -1.0),
            ((8,), (9, 2), 2.0),
        ]
    )
]  # an odd number, of unlike lengths
OPTIONS = UpdaterOptions(learning_rate=1e-3, max_grad_norm=0.1, micro_batch=3)


def learnt(team: Team, state: Any = None) -> tuple[dict[str, float], dict[str, torch.Tensor], dict[str, Any]]:
    """Metrics, weights and the updater's state after a step."""
    [updater] = updaters_of(team, 1.0, OPTIONS)
    if state is not None:
        updater.load_state_dict(state)
    metrics = updater.step(FIVE, 0)
    return metrics, team.trainable[0].state_dict(), updater.state_dict()


def compare(first: Any, second: Any) -> None:
    """Metrics, gradients (in their running means) and weights of two that learnt the same, up to rounding."""
    (metrics, weights, state), (others, expected, wanted) = first, second
    assert metrics == pytest.approx(others, abs=3e-6)
    for number, kept in wanted["optimizer"]["state"].items():
        torch.testing.assert_close(state["optimizer"]["state"][number]["exp_avg"], kept["exp_avg"], atol=3e-7, rtol=0)
    assert weights.keys() == expected.keys()
    for name, tensor in expected.items():  # Adam gives gradients of about 0 the step of large ones
        assert (weights[name] - tensor).abs().mean() < 0.01 * OPTIONS.learning_rate, name


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return save_model(tmp_path_factory.mktemp("ranks") / "model")


@pytest.fixture
def executor() -> Generator[Processes]:
    with Processes() as started:
        yield started


@pytest.mark.slow
@pytest.mark.parametrize("sharing", ["shared", "lora"])
def test_two_ranks_learn_and_speak_as_one_process_and_go_on_from_each_other(
    sharing: str, model: str, executor: Processes
) -> None:
    options = {"sharing": sharing, "device": "cpu"}
    there, here = executor.load_team(AGENTS, model, ranks=2, **options), load_team(AGENTS, model, **options)
    found, wanted = learnt(there), learnt(here)
    compare(found, wanted)
    assert wanted[0]["grad_norm"] > 0.1  # which was scaled down
    requests = [Request(agent, conversation("say red"), (0, 1)) for agent in (*AGENTS, AGENTS[0])]
    texts = [
        [[c.text for c in texts] for texts in team.generate(requests, Sampling(max_new_tokens=6))]
        for team in (there, here)
    ]
    assert texts[0] == texts[1]
    assert texts[0] != [["", ""]] * 3
    there.trainable[0].load_state_dict(wanted[1])  # what one process saved goes on in two ranks, and vice versa
    here.trainable[0].load_state_dict(found[1])
    compare(learnt(there, wanted[2]), learnt(here, found[2]))


@pytest.mark.slow
def test_a_rank_that_is_killed_is_a_lost_worker_and_an_error_of_all_is_none(model: str, executor: Processes) -> None:
    team = executor.load_team(AGENTS, model, ranks=2, sharing="shared", device="cpu")
    with pytest.raises(ValueError, match="the weights are incompatible with this model"):
        team.trainable[0].load_state_dict({"odd": torch.zeros(1)})
    with pytest.raises(ValueError, match="a sharded model has a reference policy only if"):
        updaters_of(team, 1.0, UpdaterOptions(beta=0.1))
    assert len(learnt(team)[1]) > 1  # it goes on
    ranks = [pid for pid in _running() if pid != os.getpid()]
    assert len(ranks) == 2
    os.kill(ranks[-1], signal.SIGKILL)
    with pytest.raises(WorkerLostError, match="the worker of agent_0, agent_1 ended"):
        team.trainable[0].state_dict()


@pytest.mark.slow
def test_nobody_else_reaches_ranks_and_what_stands_in_their_store_is_not_run(
    model: str, executor: Processes, tmp_path: Path
) -> None:
    psutil = pytest.importorskip("psutil")
    before = {process.pid for process in psutil.Process().children(recursive=True)}  # what other tests have left
    team = executor.load_team(AGENTS, model, ranks=2, sharing="shared", device="cpu")
    learnt(team)
    tree = [process for process in psutil.Process().children(recursive=True) if process.pid not in before]
    assert set(_running()) <= {process.pid for process in tree}
    sockets = [socket for process in tree for socket in process.net_connections("inet")]
    assert sockets  # those of gloo
    assert {socket.laddr.ip for socket in sockets} <= {"127.0.0.1", "::1"}
    words = Path(f"/proc/{_running()[0]}/cmdline").read_bytes().decode().split("\0")
    [folder] = (Path(word) for word in words if "ranks-" in word)
    assert (folder.stat().st_mode & 0o777, folder.stat().st_uid) == (0o700, os.getuid())
    store: Any = torch.distributed.FileStore(str(folder / "store"))  # pyright: ignore[reportPrivateImportUsage]
    for number in range(20):  # what a worker once read there, and the beginnings of what torch itself asks for
        for name in (f"{number}/0", f"{number}/1", f"default_pg/{number}/1"):
            store.set(name, pickle.dumps(Poison(str(tmp_path / "ran"))))
    assert learnt(team)[0]["grad_norm"] > 0
    assert not (tmp_path / "ran").exists()
    for process in tree:
        if process.pid in _running():
            process.kill()
    with pytest.raises(WorkerLostError):
        team.trainable[0].state_dict()
    assert not folder.exists()


class Poison:
    """Runs code in whoever unpickles it."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.touch, (Path(self.path),)


def test_more_ranks_than_the_machine_has_gpus_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    with pytest.raises(ValueError, match=r"ranks is 3, .* 2 GPUs"):
        Ranks(AGENTS, lambda: Team({}), 3)


def _running() -> list[int]:
    """Processes of ranks."""
    found: list[int] = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        words = path.read_bytes().split(b"\0")
        if b"llm_dec_pomdp.training.workers.ranks" in words:
            found.append(int(path.parent.name))
    return sorted(found)
