"""Communication protocols: the order in which agents act, and the texts that they observe before a turn is scored.

| protocol | phases per scored turn | description |
|---|---|---|
| parallel (no wrapper) | 1 | each agent observes only its own observation |
| `Centralized` | 1 | a single agent observes everything and writes all parts |
| `Sequential` | n | agents act in order; each observes the texts of the agents before it |
| `Discussion(rounds)` | rounds + 1 | agents observe each other's unscored drafts, then all write the final text |

A phase is a turn of the wrapper. Every learner can train under every protocol. The reward of unscored phases is 0.
`Sequential` and `Discussion` refuse hierarchies, whose agents call each other. If a task has its own form for one agent
(`TextDecPOMDP.single_agent`), the protocol "centralized" plays that form.
"""

from __future__ import annotations

import os
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import gymnasium

from ...registries import Registry
from ...types import Event, Message, TaskItem, Tool
from ..base import Script, TextDecPOMDP
from ..episode import Outcome, Transition
from ..facts import Facts
from .base import Wrapper

if TYPE_CHECKING:
    from .numeric import NumericWrapper


class ProtocolWrapper(Wrapper):
    """Base of protocols: plays `phases` turns for every turn of the inner environment.

    Args:
        env: The inner environment.
        phases: Turns of the wrapper per scored joint action.
        n_agents: Number of agents; None: as many as the inner environment has.
        share_thoughts: Whether agents also observe the private thoughts of their teammates, for comparison.

    Raises:
        ValueError: The environment is a hierarchy and the protocol does not support hierarchies.
    """

    takes_hierarchies = False

    def __init__(
        self, env: TextDecPOMDP, phases: int, n_agents: int | None = None, *, share_thoughts: bool = False
    ) -> None:
        if env.facts.hierarchical and not self.takes_hierarchies:
            raise ValueError(
                f"{env.metadata['name']} is a hierarchy, whose agents call each other, so {type(self).__name__} does "
                "not apply; use the protocol parallel or centralized"
            )
        self._wrap(env, type(self).__name__.lower())
        self.phases = phases
        self._observed: Mapping[str, str] = {}  # never mutate these three mappings: snapshots share them
        self._actions: Mapping[str, str] = {}
        self._texts: Mapping[str, str] = {}
        self._share_thoughts, self._thoughts = share_thoughts, dict[str, str]()  # behind the next actions
        super().__init__(n_agents or len(env.possible_agents), env.max_turns * phases, env.render_mode)

    @property
    def task(self) -> TextDecPOMDP:
        """Return the task inside all protocol wrappers."""
        return self.env.task

    @property
    def facts(self) -> Facts:
        """Return the inner properties, except that agents observe each other's texts and the vocabulary is open.

        The vocabulary is open because the protocol adds words to the texts of teammates.
        """
        return replace(super().facts, shares_texts=True, vocabulary=())

    def _hidden(self) -> Mapping[str, Any]:
        return self.env._hidden()

    @property
    def max_turns(self) -> int:
        """Return the number of phases of an episode; setting it rounds the inner horizon up to whole turns."""
        return self.env.max_turns * self.phases

    @max_turns.setter
    def max_turns(self, value: int) -> None:
        self.env.max_turns = -(-value // self.phases)

    @abstractmethod
    def _ask(self, phase: int) -> Mapping[str, str]:
        """Return the observations of the agents that have to act in `phase`.

        `_observed` has the inner observations, and `_texts` the visible parts of the actions so far in this turn.
        """

    def _reads(self, told: Mapping[str, str]) -> tuple[Event, ...]:
        """Return events "read": each agent that observes something reads the last text of every other agent."""
        pairs = ((reader, writer) for reader in told for writer in self._texts if writer != reader)
        return tuple(Event("read", reader, {"of": writer}) for reader, writer in pairs)

    def _joint_action(self) -> Mapping[str, str]:
        return {agent: self._actions.get(agent, "") for agent in self.env.agents}

    def _start(self, item: TaskItem, seed: int) -> Outcome:
        self._observed, _ = self.env.reset(seed=seed, options={"task_id": item.id})
        self._actions, self._texts = {}, {}
        return Outcome(self._ask(0), agents=self._roster())

    def _advance(self, item: TaskItem, actions: Mapping[str, str], seed: int) -> Outcome:
        shown = self.env.facts.visible_part
        self._actions = {**self._actions, **actions}
        self._texts = {**self._texts, **{agent: self._with_thought(agent, shown(actions[agent])) for agent in actions}}
        self._thoughts = {}
        phase = (self.turn + 1) % self.phases
        if phase:
            told = self._ask(phase)
            return Outcome(told, Transition(None, events=self._reads(told)))
        self._observed, *_ = self.env.step(self._joint_action())
        self._actions, self._texts = {}, {}
        after = self.env.latest.transition
        told: Mapping[str, str] = self._ask(0) if self.env.agents else {}
        rewards, reset_history = self._rewards(after), after.reset_history & told.keys()
        return Outcome(
            told, replace(after, state=None, rewards=rewards, reset_history=reset_history), agents=self._roster()
        )

    def note_thoughts(self, thoughts: Mapping[str, str]) -> None:
        """Keep the thoughts behind the next actions if they are shared."""
        self._thoughts = dict(thoughts) if self._share_thoughts else {}

    def _with_thought(self, agent: str, text: str) -> str:
        return f"(thought: {self._thoughts[agent]})\n{text}" if agent in self._thoughts else text

    def _roster(self) -> list[str] | None:
        """Return the live agents of the inner environment; None (unchanged) after its episode is over."""
        return self.env.agents or None

    def _rewards(self, after: Transition[Any]) -> Mapping[str, float] | None:
        """Return the reward of each agent if the inner environment has individual rewards, else None."""
        return after.rewards

    def snapshot(self) -> Any:
        """Return the state of the wrapper and of the inner environment."""
        return super().snapshot(), self.env.snapshot(), (self._observed, self._actions, self._texts)

    def restore(self, snapshot: Any) -> None:
        """Restore a snapshot of this environment or of a fork of it."""
        outer, inner, texts = snapshot
        super().restore(outer)
        self.env.restore(inner)
        self._observed, self._actions, self._texts = texts


class Sequential(ProtocolWrapper):
    """A protocol in which agents act in order, and each observes the texts of the agents before it."""

    def __init__(self, env: TextDecPOMDP, *, share_thoughts: bool = False) -> None:
        super().__init__(env, phases=len(env.possible_agents), share_thoughts=share_thoughts)

    def _ask(self, phase: int) -> Mapping[str, str]:
        agent = self.possible_agents[phase]
        if not self._observed.get(agent):
            return {}
        earlier = [f"[{self.role(other)}]\n{text}" for other, text in self._texts.items()]
        lines = [self._observed[agent]]
        if earlier:
            lines += ["Already written by the others:", *earlier, "Now write your part so that it fits."]
        return {agent: "\n\n".join(lines)}


class Discussion(ProtocolWrapper):
    """A protocol in which all agents write drafts and observe each other's drafts before they write the final text.

    Args:
        env: The inner environment.
        rounds: Number of rounds of drafts before the scored turn, at least 1.
    """

    def __init__(self, env: TextDecPOMDP, rounds: int = 1, *, share_thoughts: bool = False) -> None:
        if rounds < 1:
            raise ValueError(f"rounds is {rounds}; a discussion needs at least 1 round of drafts")
        super().__init__(env, phases=rounds + 1, share_thoughts=share_thoughts)

    def _ask(self, phase: int) -> Mapping[str, str]:
        if phase == 0:
            return {agent: text + "\n\nWrite a draft first." for agent, text in self._observed.items() if text}
        last = phase == self.phases - 1
        request = "Now write the final version of your part." if last else "Now write the next draft of your part."
        written = {agent: f"[{self.role(agent)}]\n{text}" for agent, text in self._texts.items()}
        return {
            agent: "\n\n".join(["Drafts of the others:", *(written[a] for a in written if a != agent), request])
            for agent, text in self._observed.items()
            if text
        }


class Centralized(ProtocolWrapper):
    """A protocol in which a single agent observes everything, has the tools of all agents and writes all parts.

    If there are several parts, the agent writes each below its header. The observation lists the headers. A single part
    needs no header. In a hierarchy, the single agent writes the actions of all agents that act in a turn: it acts as
    the main agent and as each sub-agent.

    Args:
        env: The inner environment.

    Raises:
        ValueError: The environment is centralized already.
    """

    takes_hierarchies = True

    def __init__(self, env: TextDecPOMDP) -> None:
        if env.facts.parts_per_action > 1:
            raise ValueError(f"{env.metadata['name']} is centralized already; give the environment without a protocol")
        super().__init__(env, phases=1, n_agents=1)

    @property
    def facts(self) -> Facts:
        """Return the wrapped environment's properties, changed: one action holds the parts of all agents.

        In a hierarchy, an action holds the parts of the agents that act in this turn. The agent receives the reward of
        the team.
        """
        known = replace(super().facts, joint_reward=True)
        if known.hierarchical:  # an action has only the parts of agents that act in this turn, mostly one
            return replace(known, hierarchical=False, scripts=())
        return replace(known, parts_per_action=len(self.env.possible_agents))

    def _roster(self) -> None:
        """Return None: the single agent stays live."""

    def _rewards(self, after: Transition[Any]) -> None:
        """Return None: the single agent receives the reward of the team."""

    def choices(self, agent: str, history: Sequence[Message] = ()) -> Sequence[str]:
        """Return (), any text: an action has several parts."""
        return ()

    def tools(self, agent: str) -> tuple[Tool, ...]:
        """Return the tools of all agents, each name once."""
        return tuple({tool.name: tool for a in self.env.possible_agents for tool in self.env.tools(a)}.values())

    def script(self, name: str) -> Script:
        """Return the script of the inner environment; a hierarchy has no script for a single agent."""
        return super().script(name) if name in self.facts.scripts else TextDecPOMDP.script(self, name)

    def role(self, agent: str) -> str:
        """Return "team"."""
        return "team"

    def _ask(self, phase: int) -> Mapping[str, str]:
        return {self.possible_agents[0]: asked_together(self.env, self._observed)}

    def as_gymnasium(self) -> GymnasiumView:
        """Return the environment as a `gymnasium.Env`, for single-agent libraries."""
        return GymnasiumView(self)

    def _joint_action(self) -> Mapping[str, str]:
        names = _names_of_parts(self.env)
        parts = replace(self.env.facts, roles=tuple(names.values())).split(self._actions[self.possible_agents[0]])
        texts = dict(zip(names, parts, strict=True))
        return {agent: texts.get(agent, "") for agent in self.env.agents}


def asked_together(env: TextDecPOMDP, observed: Mapping[str, str]) -> str:
    """Return the observations of all agents as one text, for a single agent that writes all parts.

    A beginning that all observations share occurs once. In a hierarchy, only agents that have to act have a part.
    """
    names = _names_of_parts(env)
    if env.facts.hierarchical and len(names) == 1:
        [(agent, name)] = names.items()
        return f"[{name}] {observed.get(agent, '')}"
    agents = [agent for agent in env.possible_agents if observed.get(agent)]
    texts = [observed[agent] for agent in agents]
    shared = os.path.commonprefix(texts)  # noqa: RUF071  # of texts, not of paths
    shared = shared[: shared.rfind("\n\n") + 2] if "\n\n" in shared else ""
    requests = [f"[{names.get(agent, env.role(agent))}] {observed[agent][len(shared) :]}" for agent in agents]
    headers = " and ".join(f"[{name}]" for name in names.values())
    return shared + "\n".join([*requests, f"Write all parts, each below a line with its name: {headers}."])


def _names_of_parts(env: TextDecPOMDP) -> dict[str, str]:
    """Return the header of each agent that has a part: its role, with its id if several agents have that role."""
    if not env.facts.hierarchical:
        return dict(zip(env.possible_agents, env.facts.roles, strict=True))
    acting = [agent for agent in env.agents if env.asked(agent)]
    shares = Counter(map(env.role, acting))
    return {agent: f"{env.role(agent)} {agent}" if shares[env.role(agent)] > 1 else env.role(agent) for agent in acting}


class GymnasiumView(gymnasium.Env[Any, Any]):
    """An environment with one agent as a `gymnasium.Env`, for example under the protocol "centralized".

    Args:
        env: The environment, with text or numeric spaces (`wrappers.numeric`).

    Raises:
        ValueError: The environment has several agents.
    """

    def __init__(self, env: TextDecPOMDP | NumericWrapper) -> None:
        if len(env.possible_agents) != 1:
            raise ValueError(
                f"{env.metadata['name']} has the agents {env.possible_agents}, and Gymnasium supports one; give "
                "with_protocol(env, 'centralized'), in which a single agent writes all parts"
            )
        self.env = env
        [self._agent] = env.possible_agents
        self.metadata = {**env.metadata, "render_fps": 1}
        self.render_mode = env.render_mode
        self.observation_space = env.observation_space(self._agent)
        self.action_space = env.action_space(self._agent)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start an episode; see `TextDecPOMDP.reset`."""
        super().reset(seed=seed)
        observations, infos = self.env.reset(seed=seed, options=options)
        return observations[self._agent], infos[self._agent]

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Play one action; see `TextDecPOMDP.step`."""
        results = self.env.step({self._agent: action})
        observation, reward, terminated, truncated, info = (result[self._agent] for result in results)
        return observation, reward, terminated, truncated, info  # type: ignore[return-value]

    def render(self) -> Any:
        """Render the episode so far; see `TextDecPOMDP.render`."""
        return self.env.render()

    def close(self) -> None:
        """Close the environment."""
        self.env.close()


def _parallel(env: TextDecPOMDP) -> TextDecPOMDP:
    return env


def _centralized(env: TextDecPOMDP) -> TextDecPOMDP:
    """Return the task's own form for one agent, or the task in `Centralized` if it has none."""
    return env.single_agent() or Centralized(env)


PROTOCOLS = Registry("protocol", group="llm_dec_pomdp.protocols")
"""All known communication protocols, by name."""
PROTOCOLS.register("parallel", _parallel)
PROTOCOLS.register("centralized", _centralized)
PROTOCOLS.register("sequential", Sequential)
PROTOCOLS.register("discussion", Discussion)


def register_protocol(name: str, entry_point: str | Callable[[TextDecPOMDP], TextDecPOMDP]) -> None:
    """Register a protocol under a name.

    Args:
        name: The name, for `Algorithm.protocol`, `with_protocol` and `play --protocol`.
        entry_point: `"package.module:Wrapper"` (imported on first use), or a callable from environment to environment.
    """
    PROTOCOLS.register(name, entry_point)


def with_protocol(env: TextDecPOMDP, protocol: str) -> TextDecPOMDP:
    """Return an environment under a communication protocol.

    Args:
        env: A task.
        protocol: "parallel", "centralized", "sequential", "discussion", or a registered name.

    Raises:
        KeyError: The protocol is unknown; the message names the nearest.
        ValueError: The protocol does not apply to the environment.
    """
    return PROTOCOLS.find(protocol).build(env)
