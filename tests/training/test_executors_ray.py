"""The same promises with actors of Ray."""

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
    """Ray on this machine, started once; its sockets want a short path."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("RAY_worker_register_timeout_seconds", "300")
        patched.setenv("RAY_USAGE_STATS_ENABLED", "0")
        ray.init(address="local", num_cpus=2, include_dashboard=False, logging_level="error")
        yield
        ray.shutdown()


def pid_of(actor: Any) -> int:
    from ray._private.state import actors

    pid = 0
    while not pid:  # it is being started
        time.sleep(0.05)
        pid = actors(actor._actor_id.hex())["Pid"]
    return pid


def test_main_and_sub_agents_on_actors_of_their_own_learn_as_in_one_process(
    cluster: None, whole: dict[str, Any], tmp_path: Path
) -> None:
    assert ran(hierarchy(), tmp_path, "ray") == whole
    assert ray.is_initialized()  # it was started elsewhere


@pytest.mark.parametrize("seed", range(5))
def test_kill_9_of_any_actor_at_a_random_point_changes_nothing(
    seed: int,
    cluster: None,
    whole: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    from llm_dec_pomdp.training.executors.on_ray import _Actor

    chance = random.Random(seed)
    point = chance.randrange(1, 150)  # of some 170 messages
    seen: list[Any] = []
    real = _Actor._ask

    def ask(worker: Any, *what: Any) -> Any:
        asked = real(worker, *what)
        seen.append(worker)
        if len(seen) == point:
            os.kill(pid_of(chance.choice(seen).actor), signal.SIGKILL)
        return asked

    monkeypatch.setattr(_Actor, "_ask", ask)
    with caplog.at_level(logging.WARNING):
        assert ran(hierarchy(), tmp_path, "ray") == whole
    assert caplog.text.count("all workers are started anew") == 1


def test_more_policies_than_gpus_are_refused(cluster: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Instead of waiting for ever."""
    from llm_dec_pomdp.training.executors.on_ray import Ray

    monkeypatch.setattr(ray, "cluster_resources", lambda: {"CPU": 2.0, "GPU": 1.0})
    with Ray() as executor, pytest.raises(ValueError, match="Ray has 1 GPU, and the policy of agent_1 is number 2"):
        executor.load_team(["agent_0", "agent_1"], "builtin:tiny")


def test_signals_stay_with_whoever_trains() -> None:
    from llm_dec_pomdp.training.executors.on_ray import Ray

    ray.shutdown()
    before = signal.getsignal(signal.SIGTERM)
    with Ray():
        assert signal.getsignal(signal.SIGTERM) is before
    assert not ray.is_initialized()
