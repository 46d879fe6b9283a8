# pyright: basic, reportMissingImports=false
"""Numeric environments as tasks of BenchMARL.

    from llm_dec_pomdp.integrations.benchmarl import TeamTask

    Experiment(task=TeamTask("tldr", build), algorithm_config=MappoConfig.get_from_yaml(), ...)

`build` is a function without arguments that returns an environment in `DiscreteMenu` and
`ByteObservation(..., dtype="float32")`. All agents are one group. A central critic observes the observations of all
agents.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from ..envs.wrappers import NumericWrapper
from .libraries import require

require("benchmarl")

from benchmarl.environments.pettingzoo.common import PettingZooClass  # noqa: E402  # after the check that it is installed
from torchrl.envs.libs.pettingzoo import PettingZooWrapper  # noqa: E402


class TeamTask(PettingZooClass):
    """An environment as a task of BenchMARL.

    Args:
        name: The name in BenchMARL's logs.
        build: A function that builds the environment; it is called once for each parallel copy.
    """

    def __init__(self, name: str, build: Callable[[], NumericWrapper]) -> None:
        super().__init__(name, {})
        self._build = build

    def get_env_fun(self, num_envs: int, continuous_actions: bool, seed: int | None, device: Any) -> Callable[[], Any]:
        """Return a function that builds one copy; BenchMARL runs `num_envs` copies in parallel."""

        def wrapped() -> PettingZooWrapper:
            with warnings.catch_warnings():  # TorchRL warns about all versions of PettingZoo but one
                warnings.filterwarnings("ignore", message="PettingZoo in TorchRL is tested using")
                return PettingZooWrapper(self._build(), device=device, seed=seed)

        return wrapped

    def supports_continuous_actions(self) -> bool:
        """Return False: menus and token ids are discrete."""
        return False

    def supports_discrete_actions(self) -> bool:
        """Return True."""
        return True

    def has_state(self) -> bool:
        """Return False: the critic observes the observations of all agents."""
        return False

    def max_steps(self, env: Any) -> int:
        """Return the horizon, in turns."""
        return env.max_turns

    @staticmethod
    def env_name() -> str:
        """Return the name under which BenchMARL looks for options; there are none."""
        return "llm_dec_pomdp"
