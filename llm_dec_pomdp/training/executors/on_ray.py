# pyright: basic
"""Workers as actors of Ray, on this machine or on a cluster.

Where Ray runs already (`ray.init` was called, or RAY_ADDRESS names a cluster), actors go there; else it is started on
this machine, and ended with the executor. Where there are GPUs, each actor has one of its own. A worker is told the
number of threads that the driver would compute with, so that numbers are rounded alike on machines of one type.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Sequence
from typing import Any

import ray  # pyright: ignore[reportMissingImports]
import torch
from ray.exceptions import RayActorError  # pyright: ignore[reportMissingImports]

from ...agents.base import Team
from .base import WorkerLostError
from .placed import Worker, Workers
from .worker import BUILD, AnsweringWorker


class Ray(Workers):
    """An actor of Ray for each policy."""

    def __init__(self) -> None:
        super().__init__()
        self._ours = not ray.is_initialized()
        if self._ours:
            os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
            _init()

    def start(self, agents: Sequence[str], build: Callable[[], Team]) -> Worker:
        """See `Workers`.

        Raises:
            ValueError: There are GPUs, and fewer of them than policies, so that the actor would wait for ever.
        """
        gpus = int(ray.cluster_resources().get("GPU", 0))
        if 0 < gpus <= len(self.workers):
            raise ValueError(
                f"Ray has {gpus} GPU{'s' * (gpus > 1)}, and the policy of {', '.join(agents)} is number "
                f"{len(self.workers) + 1}; let agents share weights (sharing 'lora' or 'shared'), or train with the "
                "executor 'processes', whose workers may share a GPU"
            )
        return _Actor(agents, build, gpus=min(gpus, 1))

    def __exit__(self, *exc: object) -> None:
        """End all workers, and Ray where it was started here."""
        super().__exit__(*exc)
        if self._ours:
            ray.shutdown()


def _init() -> None:
    """Start or join Ray, which takes SIGTERM for itself; whoever trains finishes a step first."""
    handler = signal.getsignal(signal.SIGTERM)
    ray.init(include_dashboard=False, logging_level="warning")
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, handler)


class _Actor:
    """A worker that is an actor."""

    def __init__(self, agents: Sequence[str], build: Callable[[], Team], gpus: int) -> None:
        self.name = f"the worker of {', '.join(agents)}"
        self.actor = ray.remote(AnsweringWorker).options(num_gpus=gpus).remote()
        self._built = self._ask(BUILD, list(agents), build)

    def call(self, method: str, *given: Any) -> Any:
        """See `Worker`."""
        try:
            built = ray.get(self._built)
            built.get()
            answer = ray.get(self._ask(method, *given))
        except RayActorError as error:
            reason = str(error).strip().splitlines()
            raise WorkerLostError(f"{self.name} ended: {reason[-1] if reason else type(error).__name__}") from None
        return answer.get()

    def _ask(self, method: str, *given: Any) -> Any:
        return self.actor.answer.remote(method, given, torch.get_num_threads())

    def end(self) -> None:
        """See `Worker`."""
        ray.kill(self.actor)
