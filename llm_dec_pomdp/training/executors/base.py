"""What an executor is, and how work goes on when it loses a worker.

An executor is placement: it says where the policies of a team live, and with each policy what generates and what moves
its weights. Environments, rollout and credit stay with whoever asks. Texts, log-probabilities and advantages cross, and
weights only where they are saved or loaded; so the same seeds give the same numbers wherever the policies are.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from ...agents.base import Team
from ...registries import Registry
from ..loop import TrainingError

T = TypeVar("T")
RESTARTS = 5  # of all workers in one run, before it is given up
_log = logging.getLogger(__name__)

executors = Registry("executor", group="llm_dec_pomdp.executors")
"""All executors that are known, by name."""
executors.register("local", "llm_dec_pomdp.training.executors.local:Local")
executors.register("processes", "llm_dec_pomdp.training.executors.processes:Processes")
executors.register("ray", "llm_dec_pomdp.training.executors.on_ray:Ray")


class WorkerLostError(TrainingError):
    """A worker ended before it was told to; what it held is gone, and what the others hold may be ahead of it."""


class Executor(Protocol):
    """Where policies live. A context manager: what it started ends with the block."""

    def load_team(self, agents: Sequence[str], model: str = "builtin:tiny", **how: Any) -> Team:
        """The team that `agents.loading.load_team` makes, with its policies where this executor puts them."""
        ...

    def __enter__(self) -> Executor: ...

    def __exit__(self, *exc: object) -> None: ...


def run(name: str, work: Callable[[Executor], T], **how: Any) -> T:
    """Do work on an executor, and once more on a new one whenever a worker is lost.

    Nobody can tell how far the others have come when one is lost, so all of them are started anew, and all go on from
    the newest checkpoint. Steps after it are done again, and come out the same.

    Args:
        name: Of the executor.
        work: Loads a team with it and goes on from the newest checkpoint, as a run does that is resumed:
            `restore`, then `train` with the same checkpoints.
        how: Arguments of the executor, as `address` is one of Ray.

    Returns:
        What the work returns.

    Raises:
        KeyError: There is no such executor.
        WorkerLostError: A worker was lost once more than `RESTARTS` times. The checkpoints stay.
    """
    make: Callable[[], Executor] = executors.find(name).load()
    losses = 0
    while True:
        try:
            with make(**how) as executor:
                return work(executor)
        except WorkerLostError as lost:
            losses += 1
            if losses > RESTARTS:
                raise WorkerLostError(
                    f"{lost}; that was the worker number {losses} that this run has lost, so it stops. What was learnt "
                    "up to the newest checkpoint is kept: see what ends the workers, then resume the run"
                ) from lost
            _log.warning("%s; all workers are started anew and go on from the newest checkpoint", lost)
