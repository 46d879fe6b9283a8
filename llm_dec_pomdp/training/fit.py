"""Check whether a learner can learn in an environment, and find the learners that can."""

from __future__ import annotations

from ..algorithms.base import Options
from ..algorithms.registration import algorithms, find_algorithm, learns
from ..config import ConfigError
from ..envs.base import TextDecPOMDP
from ..envs.wrappers import with_protocol


def check_compatible(method: str, config: Options, env: TextDecPOMDP) -> None:
    """Raise ConfigError, which names compatible learners, if a learner cannot learn in an environment.

    Args:
        method: Name of the learner.
        config: Options of the learner.
        env: The environment, under the protocol of the team.
    """
    spec = find_algorithm(method)
    if why := spec.load().incompatibility(config, env):
        fitting = ", ".join(fitting_learners(env.task)) or "no registered one"
        raise ConfigError(
            f"{method} is incompatible with {env.metadata['name']}: {why}. Compatible learners: {fitting}"
        )


def fitting_learners(task: TextDecPOMDP) -> list[str]:
    """Return the registered learners that can learn in a task under their own protocol, with default options."""
    fitting: list[str] = []
    for name in algorithms:
        try:
            spec = find_algorithm(name)
            env = with_protocol(task, spec.protocol)
            if learns(name) and not spec.load().incompatibility(spec.config({}), env):
                fitting.append(name)
        except Exception:  # an incompatible protocol or default options, or any error of another package
            continue
    return fitting
