"""Executors, which place the policies of a team, and transports, which start workers for them.

An executor places each policy in a process, where it samples and is trained. Environments, rollout and credit
assignment stay in the driver. Completions, log-probabilities and advantages are sent between processes; weights are
sent only to be saved or loaded. So the same seeds give the same numbers with every executor.
"""

from __future__ import annotations

import itertools
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from ...agents.base import Team
from ...agents.io.load import load_team
from ...agents.io.models import server_model
from ...registries import Registry
from ...types import grouped
from .base import Resources, Worker, WorkerLostError, until_done

if TYPE_CHECKING:
    from typing import Self

    from .placed import RemotePolicy

T = TypeVar("T")
_log = logging.getLogger(__name__)

executors = Registry("executor", group="llm_dec_pomdp.executors")
"""All registered executors, by name."""
executors.register("local", "llm_dec_pomdp.training.workers.transport:Executor")
executors.register("processes", "llm_dec_pomdp.training.workers.process:Processes")
executors.register("ray", "llm_dec_pomdp.training.workers.on_ray:Ray")
executors.register("torchrun", "llm_dec_pomdp.training.workers.torchrun:Torchrun")


class Executor:
    """Executor with all policies in this process; a subclass may place them in other processes.

    A context manager, which ends the workers that it started. In this process, models of similar size share the cores,
    and models on different devices run at the same time.
    """

    def load_team(self, agents: Sequence[str], model: str = "builtin:tiny", **options: Any) -> Team:
        """Return the team of `agents.io.load.load_team`, with its policies placed by this executor."""
        return load_team(agents, model, **options)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        """Do nothing, since nothing was started."""


class Transport(Executor, ABC):
    """An executor with a worker for each policy."""

    def __init__(self) -> None:
        self.workers: list[Worker] = []  # of policies

    @abstractmethod
    def start(self, name: str, build: Callable[[], Any], resources: Resources) -> Worker:
        """Start a worker, without waiting for it.

        Args:
            name: Name of the worker in messages.
            build: Builds its object in its process; a class or function of a module, or a `partial` of one.
            resources: Cores and GPUs of the worker.
        """

    @abstractmethod
    def share(self, jobs: int) -> tuple[int, Resources]:
        """Return the number of workers to start at once if `jobs` share a machine, and the resources of each."""

    def place(
        self, agents: Sequence[str], build: Callable[[], Team], ranks: int = 1, gpus: float = 1.0
    ) -> RemotePolicy:
        """Return a policy that is built in its own worker; all workers build at the same time.

        Args:
            agents: The agents of the policy.
            build: Makes a team of these agents with one policy; a function of a module, or a `partial` of one.
            ranks: Number of processes that its model is sharded over.
            gpus: GPUs per process, if there are any.
        """
        from .placed import RemotePolicy  # here, so that wrong input is refused before torch is loaded
        from .policy import policy_worker

        hosted = partial(policy_worker, list(agents), build, ranks)

        def start() -> Worker:
            self.workers.append(self.start(f"the worker of {', '.join(agents)}", hosted, Resources(gpus=ranks * gpus)))
            return self.workers[-1]

        return RemotePolicy(agents, start(), start)

    def load_team(self, agents: Sequence[str], model: str = "builtin:tiny", **options: Any) -> Team:
        """See `Executor`. Agents that share weights share a worker; a model behind a server needs none."""
        if server_model(model):
            return load_team(agents, model, **options)
        role_of = dict(zip(agents, options.pop("roles", ()) or agents, strict=True))
        devices: list[str] = options.pop("device", "auto").split(",")
        apart = options.get("sharing", "separate") == "separate"
        ranks, gpus = options.pop("ranks", 1), options.pop("gpus", 1.0)
        parts = grouped(role_of, lambda agent: role_of[agent] if apart else "")
        players: dict[str, RemotePolicy] = {}
        for part, device in zip(parts.values(), itertools.cycle(devices)):
            roles = [role_of[agent] for agent in part]
            build = partial(load_team, part, model, roles=roles, device=device.strip(), **options)
            players |= dict.fromkeys(part, self.place(part, build, ranks, gpus))
        return Team({agent: players[agent] for agent in agents})

    def __exit__(self, *exc: object) -> None:
        """End the workers of all policies."""
        while self.workers:
            self.workers.pop().end()


def run(name: str, work: Callable[[Executor], T], **options: Any) -> T:
    """Run work on an executor, and repeat it on a new executor whenever a worker is lost; return its result.

    After a loss the progress of the other workers is unknown. So all workers are restarted and continue from the newest
    checkpoint. Later steps are repeated, with the same results.

    Args:
        name: Name of the executor.
        work: Loads a team with the executor and continues from the newest checkpoint, as a resumed run does: `restore`,
            then `train` with the same checkpoints.
        options: Options of the executor, such as `address` of Ray.

    Raises:
        KeyError: There is no such executor.
        WorkerLostError: A worker was lost more than `RESTARTS` times. The checkpoints are kept.
    """
    make: Callable[..., Executor] = executors.find(name).load()

    def attempt() -> T:
        with make(**options) as executor:
            return work(executor)

    def warn(lost: WorkerLostError) -> None:
        _log.warning("%s; all workers are restarted and continue from the newest checkpoint", lost)

    return until_done(attempt, warn)
