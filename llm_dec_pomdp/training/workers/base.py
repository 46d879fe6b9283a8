"""The contract of a worker, an object in another process, and how work goes on after a lost one."""

from __future__ import annotations

import signal
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from ..loop import TrainingError

T = TypeVar("T")
OnMessage = Callable[[Any], object]
RESTARTS = 5  # of the workers of one run, before it is given up
STOP = signal.SIGUSR1  # a terminal or scheduler sends the usual ones to all processes, and a second one means "now"


class WorkerLostError(TrainingError):
    """A worker ended before its driver ended it; its state is lost, and other workers may be ahead of it."""


@dataclass(frozen=True, slots=True)
class Resources:
    """What a worker needs of a machine.

    Attributes:
        cores: That it computes with; 0: as many threads as its driver has at each call.
        gpus: Where there are any: with 0.5 two workers share one.
    """

    cores: int = 0
    gpus: float = 1.0


class Worker(ABC):
    """An object in another process, as its driver sees it. It never outlives its driver.

    Args:
        name: For messages: "the worker of agent_0".
    """

    def __init__(self, name: str) -> None:
        self.name = name

    @abstractmethod
    def call(self, method: str, *arguments: Any, on_message: OnMessage | None = None) -> Any:
        """Call a method of the object, once that is built. Arguments and result can be pickled.

        Args:
            method: Its name.
            arguments: Of the method.
            on_message: Called with each message that the method passes to its argument `emit` while it runs.

        Raises:
            WorkerLostError: The worker has ended.
            Exception: What the method raised, or the building of the object, caused by a `WorkerTraceback`.
        """

    @abstractmethod
    def stop(self) -> None:
        """Send `STOP`, after which a method that handles it finishes its step; a worker without such a method ends."""

    @abstractmethod
    def end(self) -> None:
        """End it at once, whatever it is doing."""


def until_done(attempt: Callable[[], T], warn: Callable[[WorkerLostError], None]) -> T:
    """What an attempt returns; it is repeated, after a warning, when it loses a worker.

    Raises:
        WorkerLostError: A worker was lost once more than `RESTARTS` times. The checkpoints stay.
    """
    losses = 0
    while True:
        try:
            return attempt()
        except WorkerLostError as lost:
            losses += 1
            if losses > RESTARTS:
                raise WorkerLostError(
                    f"{lost}; this run has lost {losses} workers, so it stops. The newest checkpoint is kept: see what "
                    "ends the workers, then resume the run"
                ) from lost
            warn(lost)
