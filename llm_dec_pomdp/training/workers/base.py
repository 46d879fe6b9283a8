"""The contract of a worker (an object in another process), and restarts after a worker is lost."""

from __future__ import annotations

import signal
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from ..loop import TrainingError

T = TypeVar("T")
OnMessage = Callable[[Any], object]
RESTARTS = 5  # maximum number of restarts in one run
STOP = signal.SIGUSR1  # terminals and schedulers send SIGINT and SIGTERM to all processes; a second one ends at once


class WorkerLostError(TrainingError):
    """A worker ended unexpectedly; its state is lost, and other workers may have more updates."""


@dataclass(frozen=True, slots=True)
class Resources:
    """Cores and GPUs of a worker.

    Attributes:
        cores: Number of cores; 0 for as many threads as the driver has at each call.
        gpus: Number of GPUs, if the machine has any; with 0.5, two workers share one.
    """

    cores: int = 0
    gpus: float = 1.0


class Worker(ABC):
    """An object in another process, as its driver sees it. It never outlives its driver.

    Args:
        name: Name in messages, such as "the worker of agent_0".
    """

    def __init__(self, name: str) -> None:
        self.name = name

    @abstractmethod
    def call(self, method: str, *arguments: Any, on_message: OnMessage | None = None) -> Any:
        """Call a method of the object once it is built. Arguments and result must be picklable.

        Args:
            method: Name of the method.
            arguments: Arguments of the method.
            on_message: Called with each message that the method passes to its argument `emit` while it runs.

        Raises:
            WorkerLostError: The worker has ended.
            Exception: The error of the method, or of building the object, with a `WorkerTraceback` as its cause.
        """

    @abstractmethod
    def stop(self) -> None:
        """Request a graceful stop (signal `STOP`): a method that handles it finishes its step, other workers end."""

    @abstractmethod
    def end(self) -> None:
        """End the worker at once, also in the middle of a call."""


def until_done(attempt: Callable[[], T], warn: Callable[[WorkerLostError], None]) -> T:
    """Repeat an attempt, after a warning, whenever it loses a worker; return its result.

    Raises:
        WorkerLostError: A worker was lost more than `RESTARTS` times. The checkpoints are kept.
    """
    losses = 0
    while True:
        try:
            return attempt()
        except WorkerLostError as lost:
            losses += 1
            if losses > RESTARTS:
                raise WorkerLostError(
                    f"{lost}; this run has lost {losses} workers, so it stops. The newest checkpoint is kept: find out "
                    "why workers end, then resume the run"
                ) from lost
            warn(lost)
