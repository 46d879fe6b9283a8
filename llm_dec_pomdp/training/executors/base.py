"""The executor contract, and how work goes on after a lost worker.

An executor places the policies of a team: each one generates and learns where it lives. Environments, rollout and
credit stay in the driver. Texts, log-probabilities and advantages are sent, and weights only to be saved or loaded. So
the same seeds give the same numbers wherever the policies are.
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
    """A worker ended before it was told to; its state is lost, and the other workers may be ahead of it."""


class Executor(Protocol):
    """Where policies live. A context manager, which ends what it started."""

    def load_team(self, agents: Sequence[str], model: str = "builtin:tiny", **how: Any) -> Team:
        """The team that `agents.loading.load_team` makes, with its policies where this executor puts them."""
        ...

    def __enter__(self) -> Executor: ...

    def __exit__(self, *exc: object) -> None: ...


def run(name: str, work: Callable[[Executor], T], **how: Any) -> T:
    """What work on an executor returns; it is done again on a new one whenever a worker is lost.

    How far the other workers have come is not known then, so all of them are started anew and go on from the newest
    checkpoint. Later steps are done again, with the same result.

    Args:
        name: Name of the executor.
        work: Loads a team with it and goes on from the newest checkpoint, as a resumed run does: `restore`, then
            `train` with the same checkpoints.
        how: Arguments of the executor, such as `address` of Ray.

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
                    f"{lost}; this run has lost {losses} workers, so it stops. The newest checkpoint is kept: see what "
                    "ends the workers, then resume the run"
                ) from lost
            _log.warning("%s; all workers are started anew and go on from the newest checkpoint", lost)
