# pyright: basic, reportMissingImports=false
"""Environments in numbers as tasks of BenchMARL.

    from llm_dec_pomdp.integrations.benchmarl import TeamTask

    Experiment(task=TeamTask("tldr", build), algorithm_config=MappoConfig.get_from_yaml(), ...)

`build` is a function without arguments that makes an environment around `DiscreteMenu` and
`ByteObservation(..., dtype="float32")`. All agents are one group; a central critic sees
what all of them see.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from ..envs.wrappers import NumericWrapper
from .libraries import require

require("benchmarl")

from benchmarl.environments.pettingzoo.common import PettingZooClass  # noqa: E402  # not before it is known to be there
from torchrl.envs.libs.pettingzoo import PettingZooWrapper  # noqa: E402


class TeamTask(PettingZooClass):
    """An environment as BenchMARL takes it.

    Args:
        name: In BenchMARL's logs.
        build: Makes the environment; called once for each copy that is played side by side.
    """

    def __init__(self, name: str, build: Callable[[], NumericWrapper]) -> None:
        super().__init__(name, {})
        self._build = build

    def get_env_fun(self, num_envs: int, continuous_actions: bool, seed: int | None, device: Any) -> Callable[[], Any]:
        """Makes one copy; BenchMARL puts `num_envs` of them side by side."""

        def wrapped() -> PettingZooWrapper:
            with warnings.catch_warnings():  # it warns about every PettingZoo but one
                warnings.filterwarnings("ignore", message="PettingZoo in TorchRL is tested using")
                return PettingZooWrapper(self._build(), device=device, seed=seed)

        return wrapped

    def supports_continuous_actions(self) -> bool:
        """No: menus and token ids are discrete."""
        return False

    def supports_discrete_actions(self) -> bool:
        """Yes."""
        return True

    def has_state(self) -> bool:
        """No: the critic is given the observations of all agents."""
        return False

    def max_steps(self, env: Any) -> int:
        """The horizon."""
        return env.max_turns

    @staticmethod
    def env_name() -> str:
        """Where BenchMARL would look for options; there are none."""
        return "llm_dec_pomdp"
