# pyright: basic
"""Workers as actors of Ray, on this machine or on a cluster.

Actors use a running Ray (`ray.init` was called, or an address or RAY_ADDRESS names a cluster). Otherwise Ray is started
on this machine, and ended with the executor. If there are GPUs, each policy has one, unless its model options set
another number. Each call sets the number of threads, so that results are rounded in the same way on equal machines.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import os
import signal
import socket
import threading
from collections.abc import Callable, Generator, Sequence
from functools import partial
from typing import Any

import ray  # pyright: ignore[reportMissingImports]
import torch
from ray.exceptions import (  # pyright: ignore[reportMissingImports]
    NodeDiedError,
    ObjectLostError,
    OutOfMemoryError,
    RayActorError,
)
from ray.util.queue import Empty, Queue  # pyright: ignore[reportMissingImports]
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy  # pyright: ignore[reportMissingImports]

from ...agents.base import Team
from .base import STOP, OnMessage, Resources, Worker, WorkerLostError
from .host import BUILD, Emit, Host
from .placed import RemotePolicy
from .transport import Transport

_SECONDS = 5.0  # largest wait for an address to answer
_AT_ONCE = 256  # workers that are submitted at once; Ray queues those that it cannot run yet
_LOST = (RayActorError, NodeDiedError, ObjectLostError, OutOfMemoryError)


class Ray(Transport):
    """Executor with an actor of Ray for each worker.

    Args:
        address: Address of a cluster; left out, RAY_ADDRESS, or else Ray on this machine, which ends with the executor.
    """

    def __init__(self, address: str | None = None) -> None:
        super().__init__()
        self._started_here = join(address)
        self._taken = 0.0  # GPUs that policies use
        self._mail = _Mail()

    def start(self, name: str, build: Callable[[], Any], resources: Resources) -> RayWorker:
        """See `Transport`."""
        return RayWorker(name, build, resources, self._mail)

    def share(self, jobs: int) -> tuple[int, Resources]:
        """See `Transport`; Ray runs as many workers as there are resources for."""
        cores, gpus = machine()
        # whole GPUs per job, or a share of one
        return _AT_ONCE, Resources(max(1, cores // jobs), gpus // jobs if gpus >= jobs else gpus / jobs)

    def place(
        self, agents: Sequence[str], build: Callable[[], Team], ranks: int = 1, gpus: float = 1.0
    ) -> RemotePolicy:
        """See `Transport`.

        Raises:
            ValueError: Ray has GPUs, but too few are free. (Without any GPU, the policy runs on CPUs.)
        """
        known, wanted = float(ray.cluster_resources().get("GPU", 0)), ranks * gpus
        if 0 < known < self._taken + wanted:
            raise ValueError(
                f"the policy of {', '.join(agents)} needs {wanted:g} GPUs, and of the {known:g} in Ray "
                f"{self._taken:g} are taken by other policies of its team; let agents share weights (sharing 'lora' or "
                "'shared') or GPUs (gpus = 0.5), or train with the executor 'processes'"
            )
        self._taken += wanted
        return super().place(agents, build, ranks, gpus)

    def __exit__(self, *exc: object) -> None:
        """End all workers of policies, and Ray if it was started here."""
        super().__exit__(*exc)
        self._mail.close()
        if self._started_here:
            ray.shutdown()


def join(address: str | None = None) -> bool:
    """Start or join Ray, unless this process has joined it already; return whether it did.

    Ray replaces the handler of SIGTERM; it is restored, so that a training run can finish its step.

    Raises:
        ConnectionError: Nothing answers at the address (Ray itself would retry for minutes).
    """
    if ray.is_initialized():
        return False
    address = address or os.environ.get("RAY_ADDRESS")
    if address:
        _refuse_silent(address)
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    handler = signal.getsignal(signal.SIGTERM)
    here: dict[str, Any] = {"address": "local", "include_dashboard": False}  # "local": do not join a Ray that runs here
    options: dict[str, Any] = {"address": address} if address else here
    ray.init(**options, logging_level=logging.WARNING)
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
    """Return the smallest number of cores and of GPUs of a machine; if some machines have GPUs, only of these."""
    machines = [node["Resources"] for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU")]
    machines = [resources for resources in machines if resources.get("GPU")] or machines
    cores, gpus = (int(min(resources.get(name, 0) for resources in machines)) for name in ("CPU", "GPU"))
    return cores, gpus


class RayWorker(Worker):
    """A worker that is an actor of Ray."""

    def __init__(self, name: str, build: Callable[[], Any], resources: Resources, mail: _Mail) -> None:
        super().__init__(name)
        self._threads, self._mail = resources.cores, mail
        asked: dict[str, float] = {"num_gpus": resources.gpus if ray.cluster_resources().get("GPU") else 0}
        if resources.cores:
            asked["num_cpus"] = resources.cores
        self.actor: Any = ray.remote(_Actor).options(**asked, scheduling_strategy="SPREAD").remote()
        self._built = self._ask(BUILD, build)
        self._address = self.actor.address.remote()

    def call(self, method: str, *arguments: Any, on_message: OnMessage | None = None) -> Any:
        """See `Worker`."""
        with self._mail.opened(on_message) as emit:
            try:
                ray.get(self._built).get()
                answer = ray.get(self._ask(method, *arguments, emit=emit))
            except _LOST as error:
                reason = str(error).strip().splitlines()
                raise WorkerLostError(f"{self.name} ended: {reason[-1] if reason else type(error).__name__}") from None
        return answer.get()

    def _ask(self, method: str, *arguments: Any, emit: Emit | None = None) -> ray.ObjectRef[Any]:
        return self.actor.answer.remote(method, arguments, self._threads or torch.get_num_threads(), emit)

    def stop(self) -> None:
        """See `Worker`."""
        if not ray.wait([self._address], timeout=0)[0]:  # it has not started yet
            self.end()
            return
        with contextlib.suppress(*_LOST):
            node, process = ray.get(self._address)
            there = NodeAffinitySchedulingStrategy(node, soft=False)
            ray.remote(lambda: os.kill(process, STOP)).options(num_cpus=0, scheduling_strategy=there).remote()

    def end(self) -> None:
        """See `Worker`."""
        ray.kill(self.actor)


class _Actor(Host):
    """The object in the process of an actor."""

    def address(self) -> tuple[str, int]:
        """Return the ids of the node and of the process."""
        return ray.get_runtime_context().get_node_id(), os.getpid()


class _Mail:
    """Messages of running methods, through a queue on this machine, since other machines may be lost."""

    def __init__(self) -> None:
        self._queue: Any = None
        self._heard: dict[int, OnMessage] = {}
        self._numbers = itertools.count()
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def opened(self, on_message: OnMessage | None) -> Generator[Emit | None]:
        """Yield the argument `emit` of a method while the block runs; None if there is no `on_message`."""
        if on_message is None:
            yield None
            return
        with self._lock:
            if self._queue is None:
                here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
                self._queue = Queue(actor_options={"num_cpus": 0, "scheduling_strategy": here})
                threading.Thread(target=self._deliver, daemon=True).start()
        number = next(self._numbers)
        self._heard[number] = on_message
        try:
            yield partial(_post, self._queue, number)
        finally:
            del self._heard[number]

    def _deliver(self) -> None:
        """Deliver messages in a thread until Ray ends."""
        while True:
            try:
                number, message = self._queue.get()
                if on_message := self._heard.get(number):  # else the call of a lost worker sent it
                    on_message(message)
            except Empty:
                continue
            except Exception:  # Ray has ended
                return

    def close(self) -> None:
        """Stop the delivery of messages."""
        if self._queue is not None:
            self._queue.shutdown(force=True)


def _post(mail: Any, number: int, message: Any) -> None:
    mail.put((number, message))
