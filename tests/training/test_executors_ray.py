"""The same promises with actors of Ray, on a cluster of two machines, which are two raylets here."""

from __future__ import annotations

import logging
import os
import random
import signal
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from placing import hierarchy, ran

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # those of ray
ray = pytest.importorskip("ray", reason="ray is not installed: pip install llm-dec-pomdp[ray]")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Generator[None]:
    """Joined once, with a core on each machine; its sockets want a short path."""
    from ray.cluster_utils import Cluster

    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("RAY_worker_register_timeout_seconds", "300")
        patched.setenv("RAY_USAGE_STATS_ENABLED", "0")
        machines = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
        machines.add_node(num_cpus=1)
        ray.init(address=machines.address, logging_level="error")
        yield
        ray.shutdown()
        machines.shutdown()


def about(actor: Any) -> dict[str, Any]:
    """Its process and machine, once it has them."""
    from ray._private.state import actors

    while not (known := actors(actor._actor_id.hex()))["Pid"]:  # it is being started
        time.sleep(0.05)
    return known


def test_main_and_sub_agents_on_machines_of_their_own_learn_as_in_one_process(
    cluster: None, whole: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from llm_dec_pomdp.training.executors.on_ray import _Actor

    machines: dict[str, str] = {}
    real = _Actor.end

    def end(worker: Any) -> None:
        machines[worker.name] = about(worker.actor)["Address"]["NodeID"]
        real(worker)

    monkeypatch.setattr(_Actor, "end", end)
    assert ran(hierarchy(), tmp_path, "ray") == whole
    assert ray.is_initialized()  # it was started elsewhere
    assert len(machines) == len(set(machines.values())) == 2


@pytest.mark.parametrize("seed", [0, 1, 2, 3, "in a training step"])
def test_kill_9_of_any_actor_at_a_random_point_changes_nothing(
    seed: int | str,
    cluster: None,
    whole: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    from llm_dec_pomdp.training.executors.on_ray import _Actor

    chance = random.Random(seed)
    step = isinstance(seed, str)
    point = chance.randrange(1, 12 if step else 150)  # of two workers' 6 steps each, or of some 170 messages
    seen: list[Any] = []
    real = _Actor._ask

    def ask(worker: Any, *what: Any) -> Any:
        asked = real(worker, *what)
        seen.extend([worker] if not step or what[0] == "improve" else [])
        if len(seen) == point:
            victim = about(seen[-1].actor if step else chance.choice(seen).actor)["Pid"]
            time.sleep(0.005 if step else 0.0)
            seen.append(worker)  # once
            os.kill(victim, signal.SIGKILL)
        return asked

    monkeypatch.setattr(_Actor, "_ask", ask)
    with caplog.at_level(logging.WARNING):
        assert ran(hierarchy(), tmp_path, "ray") == whole
    assert caplog.text.count("all workers are started anew") == 1


def test_more_policies_than_gpus_are_refused(cluster: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Instead of waiting for ever."""
    from llm_dec_pomdp.training.executors.on_ray import Ray

    monkeypatch.setattr(ray, "cluster_resources", lambda: {"CPU": 2.0, "GPU": 1.0})
    agents = ["agent_0", "agent_1"]
    with Ray() as executor, pytest.raises(ValueError, match="agent_1 needs 1 GPUs, and of 1 in Ray 1 are taken"):
        executor.load_team(agents, "builtin:tiny")
    with Ray() as executor:  # they share it; nobody waits for them here
        executor.load_team(agents, "builtin:tiny", gpus=0.5)
        with pytest.raises(ValueError, match=r"needs 2 GPUs, and of 1 in Ray 1 are taken"):
            executor.load_team(agents, "builtin:tiny", sharing="shared", ranks=2)


def test_signals_stay_with_whoever_trains() -> None:
    from llm_dec_pomdp.training.executors.on_ray import Ray

    ray.shutdown()
    before = signal.getsignal(signal.SIGTERM)
    with Ray():
        assert signal.getsignal(signal.SIGTERM) is before
    assert not ray.is_initialized()
