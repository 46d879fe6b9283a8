"""Numbers instead of text, for libraries that know spaces of numbers only.

| wrapper | action space | observation space |
|---|---|---|
| `DiscreteMenu(env, menu)` | `Discrete`: one of finitely many candidate texts | as inside |
| `TokenIds(env, vocabulary, max_tokens)` | `MultiDiscrete`: token ids, decoded to text | as inside |
| `ByteObservation(env, length)` | as inside | `Box`: UTF-8 bytes, zero padded; `uint8`, or `float32` in [-1, 1] |
| `FixedRoster(env)` | as inside | as inside; infos say who is asked |

They go around a text environment in any order, except that only an outermost `FixedRoster` adds action masks. Protocol
wrappers go inside:

    env = make("tldr-v0", max_turns=2)
    env = FixedRoster(ByteObservation(DiscreteMenu(with_protocol(env, "sequential"), menu=candidates), length=1024))

Each is a `pettingzoo.ParallelEnv` whose `unwrapped` is the text environment with its texts, scores and tasks
(`env.unwrapped.last_score`). A reward of NaN (the action could not be scored, through no fault of the agents) stays
NaN: leave such episodes out. `DiscreteMenu` and `TokenIds` live in `wrappers.discrete`.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from gymnasium import spaces
from pettingzoo import ParallelEnv

from ...registries import UnknownNameError, nearest
from ...spaces import FreeText
from ..base import MAX_TEXT, TextDecPOMDP
from ..facts import Facts

Bytes = npt.NDArray[np.uint8] | npt.NDArray[np.float32]
Space = spaces.Space[Any]
_BOUNDS = {"uint8": (0, 255), "float32": (-1.0, 1.0)}  # of what stands for a byte, by dtype
NumericStep = tuple[dict[str, Any], dict[str, float], dict[str, bool], dict[str, bool], dict[str, dict[str, Any]]]


class NumericWrapper(ParallelEnv[str, Any, Any]):
    """Base: passes everything on; a subclass replaces spaces and translates actions or observations.

    Args:
        env: A text environment, or one in another wrapper of this module.
    """

    metadata: dict[str, Any]

    def __init__(self, env: TextDecPOMDP | NumericWrapper) -> None:
        self.env = env
        self.metadata = {**env.metadata, "name": f"{env.metadata['name']}/{type(self).__name__.lower()}"}
        self.possible_agents = list(env.possible_agents)
        self.render_mode = env.render_mode
        self.observation_spaces: dict[str, Space] = {a: env.observation_space(a) for a in self.possible_agents}
        self.action_spaces: dict[str, Space] = {a: env.action_space(a) for a in self.possible_agents}
        self.state_space: Space = env.state_space if isinstance(env, NumericWrapper) else FreeText(MAX_TEXT)
        self._now: dict[str, Any] = {}  # everything of this wrapper that changes during an episode

    # --- what a subclass overrides -------------------------------------------------------------------------------

    def _observation(self, agent: str, observation: Any) -> Any:
        """Translate an observation of the inner environment."""
        return observation

    def _action(self, agent: str, action: Any) -> Any:
        """Translate the action of an agent that is asked for the inner environment."""
        return action

    def _ignored(self, agent: str, action: Any) -> Any:
        """Translate the action of an agent that is not asked, which does not count."""
        return action

    def _after(self) -> None:
        """Called after the inner environment was reset or stepped."""

    # --- PettingZoo ----------------------------------------------------------------------------------------------

    @property
    def agents(self) -> list[str]:  # type: ignore[override]  # PettingZoo declares an attribute
        """The live agents."""
        return self.env.agents

    def close(self) -> None:
        """Close the environment that is played."""
        self.env.close()

    def state(self) -> Any:
        """That of the text environment: JSON, or its bytes with `ByteObservation`."""
        return self.env.state()

    @property
    def unwrapped(self) -> TextDecPOMDP:
        """The text environment inside, with its protocol wrappers."""
        return self.env.unwrapped if isinstance(self.env, NumericWrapper) else self.env

    def observation_space(self, agent: str) -> Space:
        """The same object at every call."""
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> Space:
        """The same object at every call."""
        return self.action_spaces[agent]

    @property
    def max_turns(self) -> int:
        """H of the text environment."""
        return self.env.max_turns

    @max_turns.setter
    def max_turns(self, value: int) -> None:
        self.env.max_turns = value

    @property
    def max_cycles(self) -> int:
        """PettingZoo's name for `max_turns`."""
        return self.max_turns

    @max_cycles.setter
    def max_cycles(self, value: int) -> None:
        self.max_turns = value

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
        """Start an episode; seed and options as in `TextDecPOMDP.reset`."""
        observations, infos = self.env.reset(seed=seed, options=options)
        self._after()
        return self._shown(observations), infos

    def step(self, actions: Mapping[str, Any]) -> NumericStep:
        """Play one joint action.

        Raises:
            NotAskedToStepError: The episode is over or has not begun.
            TypeError, ValueError: The action of an asked agent is not in its space.
            KeyError: An agent is missing or unknown.
        """
        translated = {
            agent: self._action(agent, action) if self.asked(agent) else self._ignored(agent, action)
            for agent, action in actions.items()
        }
        observations, rewards, terminations, truncations, infos = self.env.step(translated)
        self._after()
        return self._shown(observations), rewards, terminations, truncations, infos

    def render(self, mode: str | None = None) -> str | None:
        """As the text environment does in its `render_mode`; RLlib gives a `mode`, which is ignored."""
        return self.env.render()

    # --- beyond PettingZoo ---------------------------------------------------------------------------------------

    @property
    def facts(self) -> Facts:
        """Those of the text environment."""
        return self.env.facts

    def asked(self, agent: str) -> bool:
        """True while the agent owes an answer to its last observation."""
        return agent in self.env.agents and self.env.asked(agent)

    def snapshot(self) -> Any:
        """The state of the episode as an opaque value for `restore`."""
        return self.env.snapshot(), copy.deepcopy(self._now)

    def restore(self, snapshot: Any) -> None:
        """Go back to a snapshot of this environment or of a fork of it."""
        inner, outer = snapshot
        self.env.restore(inner)
        self._now = copy.deepcopy(outer)

    def fork(self) -> NumericWrapper:
        """An independent copy at the same decision point."""
        twin = copy.copy(self)
        twin.env = self.env.fork()
        twin.observation_spaces, twin.action_spaces, twin._now = copy.deepcopy(
            (self.observation_spaces, self.action_spaces, self._now)
        )
        return twin

    def _shown(self, observations: Mapping[str, Any]) -> dict[str, Any]:
        return {agent: self._observation(agent, observation) for agent, observation in observations.items()}

    def _require_text(self, what: str, inner: Mapping[str, Space]) -> None:
        for agent, space in inner.items():
            if not isinstance(space, FreeText):
                raise TypeError(
                    f"{type(self).__name__} needs text {what}, but those of {agent} are {space}; translate {what} only "
                    "once"
                )


class ByteObservation(NumericWrapper):
    """Observations and the state (for a central critic) are UTF-8 bytes, padded with zeros to a fixed length.

    No character is cut in two, lone surrogates become backslash escapes, and an agent that is not asked sees zeros.

    Args:
        env: The inner environment, with text observations.
        length: Bytes of an observation; a few hundred tokens of English are 1000 to 2000.
        keep: Which end of a longer text is kept, "start" or "end".
        state_length: Bytes of `state()`. Default: `length`.
        dtype: "uint8", or "float32" for networks that take floats: byte / 127.5 - 1.
        history: An observation is all that the agent was told and said in the episode, a line each, instead of its last
            message alone: a policy without a memory of its own needs that wherever turns depend on each other.
    """

    def __init__(
        self,
        env: TextDecPOMDP | NumericWrapper,
        length: int,
        keep: Literal["start", "end"] = "start",
        state_length: int | None = None,
        *,
        dtype: Literal["uint8", "float32"] = "uint8",
        history: bool = False,
    ) -> None:
        super().__init__(env)
        self._require_text("observations", self.observation_spaces)
        if keep not in ("start", "end"):
            raise ValueError(f"keep is {keep!r}; {nearest(keep, ('start', 'end'))}")
        if dtype not in _BOUNDS:
            raise ValueError(f"dtype is {dtype!r}; {nearest(dtype, _BOUNDS)}")
        state_length = length if state_length is None else state_length
        if length < 1 or state_length < 1:
            raise ValueError(f"length is {length} and state_length {state_length}; both need at least 1 byte")
        self.length, self.keep, self.state_length = length, keep, state_length
        self.dtype, self.history = np.dtype(dtype), history
        low, high = _BOUNDS[dtype]
        kind: Any = self.dtype.type
        self.observation_spaces = {
            agent: spaces.Box(low, high, (length,), dtype=kind) for agent in self.possible_agents
        }
        self.state_space = spaces.Box(low, high, (state_length,), dtype=kind)

    def state(self) -> Bytes:
        """The bytes of the text environment's state."""
        return self._bytes(self.unwrapped.state(), self.state_length)

    def _observation(self, agent: str, observation: str) -> Bytes:
        if self.history and observation:
            observation = "\n".join(message.text for message in self.unwrapped.history(agent))
        return self._bytes(observation, self.length)

    def _bytes(self, text: str, length: int) -> Bytes:
        data = text.encode("utf-8", "backslashreplace")
        if len(data) > length:
            cut = data[:length] if self.keep == "start" else data[-length:]
            data = cut.decode("utf-8", "ignore").encode()  # without a character that was cut in two
        array = np.zeros(length, dtype=np.uint8)
        array[: len(data)] = np.frombuffer(data, dtype=np.uint8)
        return array if self.dtype == np.uint8 else (array / np.float32(127.5) - 1).astype(np.float32)


class FixedRoster(NumericWrapper):
    """All agents are there until the whole episode is over, for libraries that need all of them at all times.

    Agents that have not joined yet or have left observe an empty text or zeros, and their actions are ignored. They
    share the team's reward; where agents are paid individually they get 0.

    With `Discrete` actions every info gains `action_mask` (Gymnasium's int8 mask). An agent that is asked may do
    anything; one that is not asked may only do 0, so that a masked distribution still sums to one. Use the mask, or
    drop the turns with `asked` 0 from the loss.
    """

    @property
    def agents(self) -> list[str]:  # type: ignore[override]  # PettingZoo declares an attribute
        """All agents, until the episode is over."""
        return self._now.get("agents", [])

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
        """Start an episode; seed and options as in `TextDecPOMDP.reset`."""
        observations, infos = self.env.reset(seed=seed, options=options)
        self._now = {"agents": list(self.possible_agents)}
        return self._all_observations(observations), self._all_infos(infos)

    def step(self, actions: Mapping[str, Any]) -> NumericStep:
        """Play one joint action; see `NumericWrapper.step`."""
        if self.agents and set(actions) != set(self.agents):
            raise UnknownNameError(
                f"actions are for {sorted(actions)}, but the live agents are {self.agents}; give each one"
            )
        living = {agent: action for agent, action in actions.items() if agent in self.env.agents}
        observations, rewards, _, truncations, infos = self.env.step(living)
        over, cut = not self.env.agents, any(truncations.values())
        inner = self.unwrapped
        share = inner.latest.transition.reward if inner.facts.joint_reward else 0.0
        if over:
            self._now["agents"] = []
        return (
            self._all_observations(observations),
            {agent: rewards.get(agent, share) for agent in self.possible_agents},
            dict.fromkeys(self.possible_agents, over and not cut),
            dict.fromkeys(self.possible_agents, over and cut),
            self._all_infos(infos),
        )

    def _all_observations(self, observations: Mapping[str, Any]) -> dict[str, Any]:
        return {a: observations.get(a, _blank(self.observation_spaces[a])) for a in self.possible_agents}

    def _all_infos(self, infos: Mapping[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
        """Infos of all agents; those who are not there have the same numbers, all zero."""
        zero = dict.fromkeys(next(iter(infos.values())), 0.0)
        return {a: {**infos.get(a, zero), **self._mask(a)} for a in self.possible_agents}

    def _mask(self, agent: str) -> dict[str, Any]:
        space = self.action_spaces[agent]
        if not isinstance(space, spaces.Discrete):
            return {}
        mask = np.full(int(space.n), self.asked(agent), dtype=np.int8)
        mask[0] = 1
        return {"action_mask": mask}


def _blank(space: Space) -> Any:
    """What an agent sees that is not asked: no text, or bytes of zero."""
    return "" if isinstance(space, FreeText) else space.low.copy()  # type: ignore[attr-defined]  # Box
