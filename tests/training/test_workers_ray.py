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

import psutil
import pytest
from placing import hierarchy, newest_step, ran, started
from waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # those of ray
ray = pytest.importorskip("ray", reason="ray is not installed: pip install -e '.[ray]'")


@pytest.fixture(scope="module")
def joined(cluster: Any) -> Generator[None]:
    """Its machines are those of this process."""
    ray.init(address=cluster.address, logging_level="error")
    yield
    ray.shutdown()


def about(actor: Any) -> dict[str, Any]:
    """Its process and machine, once it has them."""
    from ray._private.state import actors

    wait_until(lambda: actors(actor._actor_id.hex())["Pid"])  # it is being started
    return actors(actor._actor_id.hex())


def test_main_and_sub_agents_on_machines_of_their_own_learn_as_in_one_process(
    joined: None, whole: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from llm_dec_pomdp.training.workers.on_ray import RayWorker

    machines: dict[str, str] = {}
    real = RayWorker.end

    def end(worker: Any) -> None:
        machines[worker.name] = about(worker.actor)["Address"]["NodeID"]
        real(worker)

    monkeypatch.setattr(RayWorker, "end", end)
    assert ran(hierarchy(), tmp_path, "ray") == whole
    assert ray.is_initialized()  # it was started elsewhere
    assert len(machines) == len(set(machines.values())) == 2


def test_kill_9_of_any_actor_at_random_points_changes_nothing(
    joined: None,
    whole: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Twice in one run: after some of its 170 messages, and in one of two workers' 6 training steps each."""
    from llm_dec_pomdp.training.workers.on_ray import RayWorker

    chance = random.Random(0)
    points = [chance.randrange(3, 45), chance.randrange(1, 8)]  # both are started by 2 messages
    now: list[Any] = []  # whom the messages since the last start went to
    ended: list[Any] = []
    real = RayWorker._ask

    def ask(worker: Any, *what: Any, emit: Any = None) -> Any:
        asked = real(worker, *what, emit=emit)
        learning = len(points) == 1
        if points and worker not in ended and (what[0] == "step" or not learning):
            now.append(worker)
            if len(now) == points[0]:
                victim = about((worker if learning else chance.choice(now)).actor)["Pid"]
                time.sleep(0.005 if learning else 0.0)
                points.pop(0)
                ended.extend(now)
                now.clear()
                os.kill(victim, signal.SIGKILL)
        return asked

    monkeypatch.setattr(RayWorker, "_ask", ask)
    with caplog.at_level(logging.WARNING):
        assert ran(hierarchy(), tmp_path, "ray") == whole
    assert caplog.text.count("all workers are restarted") == 2


def test_more_policies_than_gpus_are_refused(joined: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Instead of waiting for ever."""
    from llm_dec_pomdp.training.workers.on_ray import Ray

    monkeypatch.setattr(ray, "cluster_resources", lambda: {"CPU": 2.0, "GPU": 1.0})
    agents = ["agent_0", "agent_1"]
    with Ray() as executor, pytest.raises(ValueError, match="agent_1 needs 1 GPUs, and of the 1 in Ray 1 are taken"):
        executor.load_team(agents, "builtin:tiny")
    with Ray() as executor:  # they share it; nobody waits for them here
        executor.load_team(agents, "builtin:tiny", gpus=0.5)
        with pytest.raises(ValueError, match=r"needs 2 GPUs, and of the 1 in Ray 1 are taken"):
            executor.load_team(agents, "builtin:tiny", sharing="shared", ranks=2)


def test_ctrl_c_lets_a_step_finish_saves_and_leaves_no_process(tmp_path: Path) -> None:
    """With Ray on this machine, which the run starts; the signal goes to the whole group, as a terminal sends it."""
    process = started(tmp_path / "run", 500, "ray")
    ours = psutil.Process(process.pid).children(recursive=True)
    assert len(ours) > 2
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait(60) == 75
    assert newest_step(tmp_path / "run") == max((tmp_path / "run").glob("cells/*/checkpoints/*")).name
    assert psutil.wait_procs(ours, timeout=30)[1] == []


def test_signals_stay_with_whoever_trains() -> None:
    from llm_dec_pomdp.training.workers.on_ray import Ray

    ray.shutdown()
    before = signal.getsignal(signal.SIGTERM)
    with Ray():
        assert signal.getsignal(signal.SIGTERM) is before
    assert not ray.is_initialized()
