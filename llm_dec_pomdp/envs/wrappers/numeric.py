"""Numeric actions and observations, for libraries that do not support text spaces.

| wrapper | action space | observation space |
|---|---|---|
| `DiscreteMenu(env, menu)` | `Discrete`: one of finitely many candidate texts | unchanged |
| `TokenIds(env, vocabulary, max_tokens)` | `MultiDiscrete`: token ids, decoded to text | unchanged |
| `ByteObservation(env, length)` | unchanged | `Box`: UTF-8 bytes, zero padded; `uint8`, or `float32` in [-1, 1] |
| `FixedRoster(env)` | unchanged | unchanged; infos show which agents have to act |

They wrap a text environment in any order, except that only an outermost `FixedRoster` adds action masks. Protocol
wrappers go inside:

    env = make("tldr-v0", max_turns=2)
    env = FixedRoster(ByteObservation(DiscreteMenu(with_protocol(env, "sequential"), menu=candidates), length=1024))

Each is a `pettingzoo.ParallelEnv`. Its `unwrapped` is the text environment, which has the texts, scores and tasks, for
example `env.unwrapped.last_score`. A reward of NaN means that the action could not be scored, through no fault of the
agents; leave such episodes out of training. `DiscreteMenu` and `TokenIds` are in `wrappers.discrete`.
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
_BOUNDS = {"uint8": (0, 255), "float32": (-1.0, 1.0)}  # range of a byte by dtype
NumericStep = tuple[dict[str, Any], dict[str, float], dict[str, bool], dict[str, bool], dict[str, dict[str, Any]]]


class NumericWrapper(ParallelEnv[str, Any, Any]):
    """Base of numeric wrappers: a subclass replaces spaces and translates actions or observations.

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
        self._now: dict[str, Any] = {}  # the state of this wrapper that changes during an episode

    # --- what a subclass overrides -------------------------------------------------------------------------------

    def _observation(self, agent: str, observation: Any) -> Any:
        """Translate an observation of the inner environment."""
        return observation

    def _action(self, agent: str, action: Any) -> Any:
        """Translate the action of an agent that has to act."""
        return action

    def _ignored(self, agent: str, action: Any) -> Any:
        """Translate the action of an agent that does not have to act; the inner environment ignores it."""
        return action

    def _after(self) -> None:
        """Update the state of this wrapper after the inner environment was reset or stepped. Default: nothing."""

    # --- PettingZoo ----------------------------------------------------------------------------------------------

    @property
    def agents(self) -> list[str]:  # type: ignore[override]  # PettingZoo declares an attribute
        """Return the live agents."""
        return self.env.agents

    def close(self) -> None:
        """Close the inner environment."""
        self.env.close()

    def state(self) -> Any:
        """Return the state of the text environment: JSON text, or its bytes with `ByteObservation`."""
        return self.env.state()

    @property
    def unwrapped(self) -> TextDecPOMDP:
        """Return the text environment inside, with its protocol wrappers."""
        return self.env.unwrapped if isinstance(self.env, NumericWrapper) else self.env

    def observation_space(self, agent: str) -> Space:
        """Return the observation space of an agent; the same object at every call."""
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> Space:
        """Return the action space of an agent; the same object at every call."""
        return self.action_spaces[agent]

    @property
    def max_turns(self) -> int:
        """Return the horizon H of the text environment, in turns."""
        return self.env.max_turns

    @max_turns.setter
    def max_turns(self, value: int) -> None:
        self.env.max_turns = value

    @property
    def max_cycles(self) -> int:
        """Return `max_turns`, under PettingZoo's name."""
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
            NotAskedToStepError: The episode is over or has not started.
            TypeError, ValueError: The action of an agent that has to act is not in its space.
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
        """Render the text environment in its `render_mode`. RLlib passes a `mode`, which is ignored."""
        return self.env.render()

    # --- beyond PettingZoo ---------------------------------------------------------------------------------------

    @property
    def facts(self) -> Facts:
        """Return the properties of the text environment."""
        return self.env.facts

    def asked(self, agent: str) -> bool:
        """Return whether the agent has to act now."""
        return agent in self.env.agents and self.env.asked(agent)

    def snapshot(self) -> Any:
        """Return the state of the episode as an opaque value for `restore`."""
        return self.env.snapshot(), copy.deepcopy(self._now)

    def restore(self, snapshot: Any) -> None:
        """Restore a snapshot of this environment or of a fork of it."""
        inner, outer = snapshot
        self.env.restore(inner)
        self._now = copy.deepcopy(outer)

    def fork(self) -> NumericWrapper:
        """Return an independent copy at the same decision point."""
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
                    f"{type(self).__name__} needs text {what}, but those of {agent} are {space}; use only one wrapper "
                    f"that translates {what}"
                )


class ByteObservation(NumericWrapper):
    """Observations and the state (for a central critic) are UTF-8 bytes, padded with zeros to a fixed length.

    A text is never cut within a character. Lone surrogates become backslash escapes. An agent that observes nothing
    gets zeros.

    Args:
        env: The inner environment, with text observations.
        length: Bytes of an observation; a few hundred tokens of English take 1000 to 2000 bytes.
        keep: The end of a longer text that is kept, "start" or "end".
        state_length: Bytes of `state()`. Default: `length`.
        dtype: "uint8", or "float32" for networks that take floats: byte / 127.5 - 1.
        history: True: an observation is the agent's history, one message per line. False: it is the last message. A
            policy without memory needs the history if turns depend on each other.

    Raises:
        TypeError: The observations of the inner environment are not text.
        ValueError: `keep` or `dtype` does not exist, or a length is below 1.
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
        """Return the state of the text environment as bytes, of shape (state_length,)."""
        return self._bytes(self.unwrapped.state(), self.state_length)

    def _observation(self, agent: str, observation: str) -> Bytes:
        if self.history and observation:
            observation = "\n".join(message.text for message in self.unwrapped.history(agent))
        return self._bytes(observation, self.length)

    def _bytes(self, text: str, length: int) -> Bytes:
        data = text.encode("utf-8", "backslashreplace")
        if len(data) > length:
            cut = data[:length] if self.keep == "start" else data[-length:]
            data = cut.decode("utf-8", "ignore").encode()  # drops a character that was cut
        array = np.zeros(length, dtype=np.uint8)
        array[: len(data)] = np.frombuffer(data, dtype=np.uint8)
        return array if self.dtype == np.uint8 else (array / np.float32(127.5) - 1).astype(np.float32)


class FixedRoster(NumericWrapper):
    """All agents are live until the episode is over, for libraries that need a fixed set of agents.

    An agent that has not joined yet or has left observes an empty text or zeros, and its action is ignored. It receives
    the team's reward, or 0 if rewards are individual.

    With `Discrete` actions, every info has an `action_mask` (Gymnasium's int8 mask of shape (n,)). All actions are
    valid for an agent that has to act. For any other agent only action 0 is valid, so that a masked distribution still
    sums to one. Use the mask, or leave turns whose info has `asked` 0 out of the loss.
    """

    @property
    def agents(self) -> list[str]:  # type: ignore[override]  # PettingZoo declares an attribute
        """Return all agents until the episode is over, then none."""
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
        """Return infos of all agents; agents that are not live have the same keys, with zeros."""
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
    """Return the observation of an agent that observes nothing: an empty text, or the lowest values of the space."""
    return "" if isinstance(space, FreeText) else space.low.copy()  # type: ignore[attr-defined]  # Box
