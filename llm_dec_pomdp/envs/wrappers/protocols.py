"""Communication protocols: who sees what before the joint action is scored.

| protocol | phases per scored turn | what an agent sees |
|---|---|---|
| parallel (no wrapper) | 1 | its own observation |
| `Centralized` | 1 | one agent sees everything and writes all parts |
| `Sequential` | n | agents speak in order; each sees the texts of those before it |
| `Discussion(rounds)` | rounds + 1 | unscored drafts of the others, then everyone writes the final text |

Every learner can train under every protocol. Unscored phases pay 0. `Sequential` and `Discussion` refuse hierarchies,
whose agents call each other. Where a task has its own form for one agent (`TextDecPOMDP.single_agent`), the protocol
"centralized" plays that form.
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
    """Base: plays `phases` turns of its own for every turn of the inner environment.

    Args:
        env: The inner environment.
        phases: Turns per scored joint action.
    """

    takes_hierarchies = False

    def __init__(self, env: TextDecPOMDP, phases: int, n_agents: int | None = None) -> None:
        if env.facts.hierarchical and not self.takes_hierarchies:
            raise ValueError(
                f"{env.metadata['name']} is a hierarchy, in which agents call each other and see only their subtasks; "
                f"{type(self).__name__} is for agents of one task. Play it in parallel or centralized"
            )
        self._wrap(env, type(self).__name__.lower())
        self.phases = phases
        self._observed: Mapping[str, str] = {}  # these three are replaced and never changed, as snapshots share them
        self._actions: Mapping[str, str] = {}
        self._texts: Mapping[str, str] = {}
        super().__init__(n_agents or len(env.possible_agents), env.max_turns * phases, env.render_mode)

    @property
    def task(self) -> TextDecPOMDP:
        """The task inside all protocol wrappers."""
        return self.env.task

    @property
    def facts(self) -> Facts:
        """Agents are told each other's texts, in words of the protocol."""
        return replace(super().facts, shares_texts=True, vocabulary=())

    def _hidden(self) -> Mapping[str, Any]:
        return self.env._hidden()

    @property
    def max_turns(self) -> int:
        """Phases in a whole episode; setting it sets the inner H to the next whole number of turns."""
        return self.env.max_turns * self.phases

    @max_turns.setter
    def max_turns(self, value: int) -> None:
        self.env.max_turns = -(-value // self.phases)

    @abstractmethod
    def _ask(self, phase: int) -> Mapping[str, str]:
        """What the agents asked in `phase` are told, from `_observed` (the inner observations) and `_texts` (what the
        agents have said in this turn, as others may read it)."""

    def _reads(self, told: Mapping[str, str]) -> tuple[Event, ...]:
        """Events "read": each agent that is told something reads the last text of every other agent."""
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
        self._texts = {agent: shown(text) for agent, text in self._actions.items()}
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

    def _roster(self) -> list[str] | None:
        """The live agents of the inner environment; when its episode is over, those before."""
        return self.env.agents or None

    def _rewards(self, after: Transition[Any]) -> Mapping[str, float] | None:
        """What each agent is paid, where the inner environment pays individually."""
        return after.rewards

    def snapshot(self) -> Any:
        """The state of wrapper and inner environment."""
        return super().snapshot(), self.env.snapshot(), (self._observed, self._actions, self._texts)

    def restore(self, snapshot: Any) -> None:
        """Go back to a snapshot of this environment or of a fork of it."""
        outer, inner, texts = snapshot
        super().restore(outer)
        self.env.restore(inner)
        self._observed, self._actions, self._texts = texts


class Sequential(ProtocolWrapper):
    """Agents speak in order; each sees what those before it wrote."""

    def __init__(self, env: TextDecPOMDP) -> None:
        super().__init__(env, phases=len(env.possible_agents))

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
    """All agents draft and read each other's drafts for some rounds, then all write the final text.

    Args:
        env: The inner environment.
        rounds: Rounds of drafts before the scored one.
    """

    def __init__(self, env: TextDecPOMDP, rounds: int = 1) -> None:
        if rounds < 1:
            raise ValueError(f"rounds is {rounds}; a discussion needs at least 1 round of drafts")
        super().__init__(env, phases=rounds + 1)

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
    """One agent observes everything, has the tools of all agents and writes all parts.

    In a hierarchy the agent writes the texts of the agents that act in a turn: the main agent delegates and then works
    on the subtasks itself. One part needs no header. Several parts stand below the headers that the observation names.

    Args:
        env: The inner environment.

    Raises:
        ValueError: The environment is centralized already.
    """

    takes_hierarchies = True

    def __init__(self, env: TextDecPOMDP) -> None:
        if env.facts.parts_per_action > 1:
            raise ValueError(f"{env.metadata['name']} is centralized already: one agent writes all parts")
        super().__init__(env, phases=1, n_agents=1)

    @property
    def facts(self) -> Facts:
        """An action holds all parts and receives the reward of the team."""
        known = replace(super().facts, joint_reward=True)
        if known.hierarchical:  # parts are written when agents act, mostly one in a turn
            return replace(known, hierarchical=False, scripts=())
        return replace(known, parts_per_action=len(self.env.possible_agents))

    def _roster(self) -> None:
        """The one agent, always."""

    def _rewards(self, after: Transition[Any]) -> None:
        """The team's."""

    def choices(self, agent: str, history: Sequence[Message] = ()) -> Sequence[str]:
        """Return (): an action holds all parts, so any text may matter."""
        return ()

    def tools(self, agent: str) -> tuple[Tool, ...]:
        """Return the tools of all agents, each name once."""
        return tuple({tool.name: tool for a in self.env.possible_agents for tool in self.env.tools(a)}.values())

    def script(self, name: str) -> Script:
        """Return the script of the inner environment; a hierarchy has none for one agent."""
        return super().script(name) if name in self.facts.scripts else TextDecPOMDP.script(self, name)

    def role(self, agent: str) -> str:
        """Always "team"."""
        return "team"

    def _ask(self, phase: int) -> Mapping[str, str]:
        return {self.possible_agents[0]: asked_together(self.env, self._observed)}

    def as_gymnasium(self) -> GymnasiumView:
        """The same environment for single-agent libraries."""
        return GymnasiumView(self)

    def _joint_action(self) -> Mapping[str, str]:
        names = _names_of_parts(self.env)
        parts = replace(self.env.facts, roles=tuple(names.values())).split(self._actions[self.possible_agents[0]])
        texts = dict(zip(names, parts, strict=True))
        return {agent: texts.get(agent, "") for agent in self.env.agents}


def asked_together(env: TextDecPOMDP, observed: Mapping[str, str]) -> str:
    """Return the observations of all agents as one text for an agent that writes all parts.

    A common beginning stands once. In a hierarchy only the agents that act have a part.
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
    """Return the header of each agent that has a part: its role, with its id where others in a hierarchy share it."""
    if not env.facts.hierarchical:
        return dict(zip(env.possible_agents, env.facts.roles, strict=True))
    acting = [agent for agent in env.agents if env.asked(agent)]
    shares = Counter(map(env.role, acting))
    return {agent: f"{env.role(agent)} {agent}" if shares[env.role(agent)] > 1 else env.role(agent) for agent in acting}


class GymnasiumView(gymnasium.Env[Any, Any]):
    """An environment of one agent as a `gymnasium.Env`, such as one under the protocol "centralized".

    Args:
        env: The environment that is played; text, or in numbers (`wrappers.numeric`).

    Raises:
        ValueError: It has several agents.
    """

    def __init__(self, env: TextDecPOMDP | NumericWrapper) -> None:
        if len(env.possible_agents) != 1:
            raise ValueError(
                f"{env.metadata['name']} has the agents {env.possible_agents}, and Gymnasium knows one; give "
                "with_protocol(env, 'centralized'), whose one agent writes all parts"
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
        """Play the action of the one agent; see `TextDecPOMDP.step`."""
        results = self.env.step({self._agent: action})
        observation, reward, terminated, truncated, info = (result[self._agent] for result in results)
        return observation, reward, terminated, truncated, info  # type: ignore[return-value]

    def render(self) -> Any:
        """The episode so far, as `TextDecPOMDP.render` gives it."""
        return self.env.render()

    def close(self) -> None:
        """Close the environment that is played."""
        self.env.close()


def _parallel(env: TextDecPOMDP) -> TextDecPOMDP:
    return env


def _centralized(env: TextDecPOMDP) -> TextDecPOMDP:
    """Return the task's own form for one agent, else the task with one agent that writes all parts."""
    return env.single_agent() or Centralized(env)


PROTOCOLS = Registry("protocol", group="llm_dec_pomdp.protocols")
"""All known communication protocols, by name."""
PROTOCOLS.register("parallel", _parallel)
PROTOCOLS.register("centralized", _centralized)
PROTOCOLS.register("sequential", Sequential)
PROTOCOLS.register("discussion", Discussion)


def register_protocol(name: str, entry_point: str | Callable[[TextDecPOMDP], TextDecPOMDP]) -> None:
    """Make a protocol known under a name.

    Args:
        name: What `Algorithm.protocol` says, and `play --protocol` takes.
        entry_point: `"package.module:Wrapper"` (imported on first use) or a callable, which is given the environment.
    """
    PROTOCOLS.register(name, entry_point)


def with_protocol(env: TextDecPOMDP, protocol: str) -> TextDecPOMDP:
    """The environment under a communication protocol.

    Args:
        env: A task.
        protocol: "parallel", "centralized", "sequential", "discussion", or one that is registered.

    Raises:
        KeyError: Unknown protocol; the message names the nearest.
    """
    return PROTOCOLS.find(protocol).build(env)
