# pyright: basic
"""Workers as actors of Ray, on this machine or on a cluster.

Actors go where Ray runs already (`ray.init` was called, or an address or RAY_ADDRESS names a cluster); else Ray is
started on this machine, and ended with the executor. Where there are GPUs, each actor has one, unless its model says
otherwise. Each call carries the driver's number of threads, so that numbers are rounded alike on machines of one type.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import threading
from collections.abc import Callable, Sequence
from typing import Any

import ray  # pyright: ignore[reportMissingImports]
import torch
from ray.exceptions import RayActorError  # pyright: ignore[reportMissingImports]

from ...agents.base import Team
from .base import WorkerLostError
from .placed import Needs, Worker, Workers
from .worker import BUILD, AnsweringWorker

_SECONDS = 5.0  # to wait for an address to answer


class Ray(Workers):
    """An actor of Ray for each policy.

    Args:
        address: Of a cluster; left out: RAY_ADDRESS, or Ray on this machine, which ends with the executor.
    """

    def __init__(self, address: str | None = None) -> None:
        super().__init__()
        self._ours = join(address)
        self._taken = 0.0  # GPUs

    def start(self, agents: Sequence[str], build: Callable[[], Team], needs: Needs) -> Worker:
        """See `Workers`.

        Raises:
            ValueError: There are too few GPUs, so that the actor would wait for ever.
        """
        gpus = float(ray.cluster_resources().get("GPU", 0))
        wanted = needs.ranks * needs.gpus
        if 0 < gpus < self._taken + wanted:
            raise ValueError(
                f"the policy of {', '.join(agents)} needs {wanted:g} GPUs, and of the {gpus:g} in Ray "
                f"{self._taken:g} are taken by others of its team; let agents share weights (sharing 'lora' or "
                "'shared') or GPUs (gpus = 0.5), or train with the executor 'processes'"
            )
        self._taken += wanted
        return _Actor(agents, build, needs.ranks, wanted if gpus else 0)

    def __exit__(self, *exc: object) -> None:
        """End all workers, and Ray where it was started here."""
        super().__exit__(*exc)
        if self._ours:
            ray.shutdown()


def join(address: str | None = None) -> bool:
    """Start or join Ray, unless this process has; returns whether it did.

    Ray takes over SIGTERM; its handler is restored, so that a training can finish its step.

    Raises:
        ConnectionError: Nothing listens at the address (Ray itself would try for minutes).
    """
    if ray.is_initialized():
        return False
    address = address or os.environ.get("RAY_ADDRESS")
    if address:
        _refuse_silent(address)
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    handler = signal.getsignal(signal.SIGTERM)
    own: dict[str, Any] = {"address": "local", "include_dashboard": False}  # "local": never join a Ray that runs here
    how: dict[str, Any] = {"address": address} if address else own
    ray.init(**how, logging_level=logging.WARNING)
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, handler)
    return True


def _refuse_silent(address: str) -> None:
    host, _, port = address.rpartition("://")[2].rpartition(":")
    if not host or not port.isdigit():
        return  # "auto" and "local", or an error of Ray
    try:
        socket.create_connection((host, int(port)), timeout=_SECONDS).close()
    except OSError as error:
        raise ConnectionError(
            f"no Ray answers at {address!r} ({error}); give the address that `ray start --head` prints, HOST:6379"
        ) from None


def machine() -> tuple[int, int]:
    """Cores and GPUs of the smallest machine; of the smallest one with GPUs, where any machine has them."""
    machines = [node["Resources"] for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU")]
    machines = [resources for resources in machines if resources.get("GPU")] or machines
    cores, gpus = (int(min(resources.get(name, 0) for resources in machines)) for name in ("CPU", "GPU"))
    return cores, gpus


class _Actor:
    """A worker that is an actor."""

    def __init__(self, agents: Sequence[str], build: Callable[[], Team], ranks: int, gpus: float) -> None:
        self.name = f"the worker of {', '.join(agents)}"
        self.actor: Any = ray.remote(AnsweringWorker).options(num_gpus=gpus, scheduling_strategy="SPREAD").remote()
        self._built = self._ask(BUILD, list(agents), build, ranks)

    def call(self, method: str, *given: Any) -> Any:
        try:
            ray.get(self._built).get()
            answer = ray.get(self._ask(method, *given))
        except RayActorError as error:
            reason = str(error).strip().splitlines()
            raise WorkerLostError(f"{self.name} ended: {reason[-1] if reason else type(error).__name__}") from None
        return answer.get()

    def _ask(self, method: str, *given: Any) -> ray.ObjectRef[Any]:
        return self.actor.answer.remote(method, given, torch.get_num_threads())

    def end(self) -> None:
        ray.kill(self.actor)
