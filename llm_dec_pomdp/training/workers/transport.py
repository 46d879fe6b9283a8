"""Executors: where the policies of a team live, and the transports that start workers for them.

An executor places the policies of a team: each one generates and learns where it lives. Environments, rollout and
credit stay in the driver. Texts, log-probabilities and advantages are sent, and weights only to be saved or loaded. So
the same seeds give the same numbers wherever the policies are.
"""

from __future__ import annotations

import itertools
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from ...agents.base import Team
from ...agents.loading import load_team, server_model
from ...registries import Registry
from ...types import grouped
from .base import Resources, Worker, WorkerLostError, until_done

if TYPE_CHECKING:
    from typing import Self

    from .placed import RemotePolicy

T = TypeVar("T")
_log = logging.getLogger(__name__)

executors = Registry("executor", group="llm_dec_pomdp.executors")
"""All executors that are known, by name."""
executors.register("local", "llm_dec_pomdp.training.workers.transport:Executor")
executors.register("processes", "llm_dec_pomdp.training.workers.process:Processes")
executors.register("ray", "llm_dec_pomdp.training.workers.on_ray:Ray")
executors.register("torchrun", "llm_dec_pomdp.training.workers.torchrun:Torchrun")


class Executor:
    """Policies live in this process; a subclass may put them elsewhere. A context manager, which ends what it started.

    Here models of like size share the cores, those on different devices work at the same time.
    """

    def load_team(self, agents: Sequence[str], model: str = "builtin:tiny", **options: Any) -> Team:
        """The team that `agents.loading.load_team` makes, with its policies where this executor puts them."""
        return load_team(agents, model, **options)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        """Nothing was started."""


class Transport(Executor, ABC):
    """An executor with a worker for each policy; it starts workers of any kind."""

    def __init__(self) -> None:
        self.workers: list[Worker] = []  # those of policies

    @abstractmethod
    def start(self, name: str, build: Callable[[], Any], resources: Resources) -> Worker:
        """Start a worker, without waiting for it.

        Args:
            name: Of the worker, for messages.
            build: Makes its object where it lives; a class or function of a module, or a `partial` of one.
            needs: What it needs of a machine.
        """

    @abstractmethod
    def share(self, jobs: int) -> tuple[int, Resources]:
        """How many workers may be started at once when `jobs` share a machine, and what each of them gets of it."""

    def place(
        self, agents: Sequence[str], build: Callable[[], Team], ranks: int = 1, gpus: float = 1.0
    ) -> RemotePolicy:
        """A policy that is built in its own worker; all workers build at the same time.

        Args:
            agents: The agents that it plays.
            build: Makes a team of these agents and one policy; a function of a module, or a `partial` of one.
            ranks: Processes that its model is sharded over.
            gpus: GPUs for each of them, where there are any.
        """
        from .placed import RemotePolicy  # here, since what is typed wrongly is answered before torch is loaded
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
    """What work on an executor returns; it is done again on a new one whenever a worker is lost.

    How far the other workers have come is not known then, so all of them are started anew and go on from the newest
    checkpoint. Later steps are done again, with the same result.

    Args:
        name: Name of the executor.
        work: Loads a team with it and goes on from the newest checkpoint, as a resumed run does: `restore`, then
            `train` with the same checkpoints.
        options: Of the executor, such as `address` of Ray.

    Raises:
        KeyError: There is no such executor.
        WorkerLostError: A worker was lost once more than `RESTARTS` times. The checkpoints stay.
    """
    make: Callable[..., Executor] = executors.find(name).load()

    def attempt() -> T:
        with make(**options) as executor:
            return work(executor)

    def warn(lost: WorkerLostError) -> None:
        _log.warning("%s; all workers are started anew and go on from the newest checkpoint", lost)

    return until_done(attempt, warn)
