"""Many copies of an environment, stepped at once; rewards of the code sandbox are computed concurrently.

    envs = make_vec("coophumaneval-v0", 8, split="train")
    observations, infos = envs.reset(seed=0)
    observations, rewards, terminations, truncations, infos = envs.step(actions)

A finished copy is reset automatically, in one of two modes of Gymnasium (`gymnasium.vector.AutoresetMode`):

* `SAME_STEP`, the default: the step that ends an episode returns the first observations of the next one. The last
  observations and infos of the finished episode are in `infos[i]["final_obs"]` and `infos[i]["final_info"]`. No step is
  lost, which matters if episodes have one turn.
* `NEXT_STEP`: the step after the end resets that copy; its action is ignored, and its reward is 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from gymnasium.vector import AutoresetMode

from ...registries import nearest
from ...spaces import FreeText
from ..base import TextDecPOMDP, step_many
from ..registration import make
from .numeric import NumericWrapper, Space

Env = TextDecPOMDP | NumericWrapper
Batch = list[dict[str, str]] | dict[str, npt.NDArray[Any]]
VecStep = tuple[Batch, npt.NDArray[np.float64], npt.NDArray[np.bool_], npt.NDArray[np.bool_], list[dict[str, Any]]]


class VecEnv:
    """Copies of one environment.

    A batch of texts is a list with one dict (agent -> text) per copy. A batch of numbers is a dict with one array of
    shape (num_envs, ...) per agent. Rewards, terminations and truncations are arrays of shape (num_envs,), for the
    team. Infos are a list with one dict (agent -> info) per copy.

    Args:
        envs: The copies; all have the same agents and spaces.
        autoreset: The reset after the end of an episode; see the module.

    Raises:
        ValueError: There are no copies, a copy is listed twice, spaces differ, or the mode is not supported.
    """

    def __init__(self, envs: Sequence[Env], autoreset: AutoresetMode = AutoresetMode.SAME_STEP) -> None:
        if not envs:
            raise ValueError("there are no environments; give at least 1")
        if len(set(map(id, envs))) < len(envs):
            raise ValueError("the same environment object is given more than once; build one object per copy")
        if autoreset not in (AutoresetMode.SAME_STEP, AutoresetMode.NEXT_STEP):
            raise ValueError(f"autoreset is {autoreset!r}; use AutoresetMode.SAME_STEP or NEXT_STEP")
        self.envs = tuple(envs)
        self.num_envs = len(envs)
        self.possible_agents = list(envs[0].possible_agents)
        self.single_observation_spaces: dict[str, Space] = dict(envs[0].observation_spaces)
        self.single_action_spaces: dict[str, Space] = dict(envs[0].action_spaces)
        self._text = any(isinstance(space, FreeText) for space in self.single_observation_spaces.values())
        self.metadata = {**envs[0].metadata, "autoreset_mode": autoreset}
        for i, env in enumerate(envs):
            if (env.observation_spaces, env.action_spaces) != (envs[0].observation_spaces, envs[0].action_spaces):
                raise ValueError(f"environment {i} has other agents or spaces than environment 0; all must be the same")
        self.autoreset = autoreset
        self._over = np.zeros(self.num_envs, dtype=np.bool_)  # copies that the next step resets

    def reset(
        self,
        seed: int | Sequence[int | None] | None = None,
        options: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
    ) -> tuple[Batch, list[dict[str, Any]]]:
        """Start an episode in every copy.

        Args:
            seed: One seed per copy; with an integer, copy i has the seed `seed + i` (as in Gymnasium).
            options: Options for all copies, or one mapping per copy.

        Returns:
            Observations and infos; see the class.

        Raises:
            ValueError: The number of seeds or options differs from `num_envs`.
        """
        seeds = [seed + i for i in range(self.num_envs)] if isinstance(seed, int) else self._each(seed, "seeds")
        several = self._each(None if isinstance(options, Mapping) else options, "options")
        chosen = [options] * self.num_envs if isinstance(options, Mapping) else several
        results = [
            env.reset(seed=s, options=dict(o) if o else None)
            for env, s, o in zip(self.envs, seeds, chosen, strict=True)
        ]
        self._over[:] = False
        return self._batch([observations for observations, _ in results]), [dict(infos) for _, infos in results]

    def step(self, actions: Sequence[Mapping[str, Any]] | Mapping[str, Sequence[Any] | npt.NDArray[Any]]) -> VecStep:
        """Play one joint action in every copy.

        Args:
            actions: A sequence with one mapping (agent -> action) per copy, or a mapping with one batch per agent.

        Returns:
            Observations, rewards, terminations, truncations and infos; see the class.

        Raises:
            ValueError: The number of actions differs from `num_envs`.
        """
        joint = self._joint(actions)
        running = [i for i in range(self.num_envs) if not self._over[i]]
        stepped = step_many(
            cast("list[TextDecPOMDP]", [self.envs[i] for i in running]),  # only `step` is used
            [joint[i] for i in running],
        )
        results = dict(zip(running, stepped, strict=True))
        rewards = np.zeros(self.num_envs)
        terminations, truncations = np.zeros((2, self.num_envs), dtype=np.bool_)
        observations: list[dict[str, Any]] = []
        infos: list[dict[str, Any]] = []
        for i, env in enumerate(self.envs):
            if i not in results:
                seen, info = env.reset()
            else:
                seen, _, _, cut, info = results[i]
                rewards[i] = (env.unwrapped if isinstance(env, NumericWrapper) else env).latest.transition.reward
                truncations[i] = not env.agents and any(cut.values())
                terminations[i] = not env.agents and not truncations[i]
                if not env.agents and self.autoreset is AutoresetMode.SAME_STEP:
                    last, (seen, first_info) = {"final_obs": seen, "final_info": info}, env.reset()
                    info = {**first_info, **last}
            observations.append(seen)
            infos.append(dict(info))
        self._over = np.array([not env.agents for env in self.envs])
        return self._batch(observations), rewards, terminations, truncations, infos

    def close(self) -> None:
        """Close all copies."""
        for env in self.envs:
            env.close()

    def _each(self, values: Sequence[Any] | None, what: str) -> Sequence[Any]:
        if values is None:
            return [None] * self.num_envs
        if len(values) != self.num_envs:
            raise ValueError(f"{len(values)} {what} for {self.num_envs} environments; give one each")
        return values

    def _joint(self, actions: Sequence[Mapping[str, Any]] | Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
        if not isinstance(actions, Mapping):
            return self._each(actions, "joint actions")
        for agent, batch in actions.items():
            self._each(batch, f"actions of {agent}")
        return [{agent: batch[i] for agent, batch in actions.items()} for i in range(self.num_envs)]

    def _batch(self, observations: list[dict[str, Any]]) -> Batch:
        if self._text:
            return observations
        for observation in observations:
            if missing := [agent for agent in self.possible_agents if agent not in observation]:
                raise ValueError(
                    f"{missing[0]!r} has no observation, since it is not live; wrap each copy in FixedRoster"
                )
        return {agent: np.stack([observation[agent] for observation in observations]) for agent in self.possible_agents}


def make_vec(
    env: str | Callable[..., Env],
    num_envs: int,
    *,
    autoreset: AutoresetMode | str = AutoresetMode.SAME_STEP,
    **kwargs: Any,
) -> VecEnv:
    """Build many copies of an environment.

    Args:
        env: A registered id, or a callable that builds one environment with its wrappers.
        num_envs: Number of copies.
        autoreset: `AutoresetMode.SAME_STEP` or `NEXT_STEP`, or the name of one.
        kwargs: Arguments of the constructor of each copy.

    Raises:
        ValueError: `num_envs` is below 1, or the mode does not exist.
    """
    if num_envs < 1:
        raise ValueError(f"num_envs is {num_envs}; it must be at least 1")
    if isinstance(autoreset, str):
        if autoreset not in AutoresetMode.__members__:
            known = ("SAME_STEP", "NEXT_STEP")
            raise ValueError(f"autoreset {autoreset!r} does not exist; {nearest(autoreset, known)}")
        autoreset = AutoresetMode[autoreset]
    copies = [make(env, **kwargs) if isinstance(env, str) else env(**kwargs) for _ in range(num_envs)]
    return VecEnv(copies, autoreset)
