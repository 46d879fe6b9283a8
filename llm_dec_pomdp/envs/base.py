"""The environment contract: a Dec-POMDP <I, S, {O_i}, {A_i}, R, T, H> whose actions are texts.

`TextDecPOMDP` is a `pettingzoo.ParallelEnv[str, str, str]`. It implements the parts that all environments share:
spaces, seeding, the choice of a task, histories, infos, termination, snapshots and rendering. Its subclasses are:

* `Task` (`envs.task`): a hidden state, chance, and agents that join and leave;
* `TextTask` (`envs.text_task`): tasks that only score the texts of a joint action;
* protocol wrappers (`envs.wrappers.protocols`): messages between agents before the inner environment scores the joint
  action.

An agent that observes nothing gets an empty observation. The action of an agent that does not have to act is ignored.

The horizon H is part of the problem, so the last turn *terminates*, as solving and stopping do. No environment
truncates: truncation is a limit outside the task.
"""

from __future__ import annotations

import copy
import json
import operator
import sys
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, NoReturn, TypeVar

import numpy as np
from gymnasium.utils import seeding as gym_seeding
from pettingzoo import ParallelEnv

from ..registries import Spec, UnknownNameError, nearest
from ..seeding import derive
from ..spaces import FreeText
from ..types import Group, Message, Score, TaskItem, Tool
from ..user_code import note_episode
from .episode import Outcome, Progress, agent_rewards
from .facts import Facts
from .streams import TaskStream
from .tasks import TaskError, check_options, named_item

RENDER_MODES = ("ansi", "human")
MAX_TEXT = 10_000_000
Env = TypeVar("Env", bound="TextDecPOMDP")
Script = Callable[[str, Sequence[Message]], str]
"""A scripted team: a function from an agent and its history to the next text."""
StepResult = tuple[dict[str, str], dict[str, float], dict[str, bool], dict[str, bool], dict[str, dict[str, Any]]]


class NotAskedToStepError(RuntimeError):
    """`step` was called on an environment that has no running episode."""


class TextDecPOMDP(ParallelEnv[str, str, str]):
    """Base of every environment and protocol wrapper; see the module.

    Attributes:
        declared: Properties of the class; `facts` adds those that depend on options and `max_turns`.
        spec: The registry entry that `make` used; None for an environment built without `make`.
    """

    metadata: dict[str, Any] = {"render_modes": list(RENDER_MODES), "name": "text_dec_pomdp", "is_parallelizable": True}
    declared: Facts
    spec: Spec | None = None

    def __init__(self, n_agents: int, max_turns: int, render_mode: str | None) -> None:
        if render_mode is not None and render_mode not in RENDER_MODES:
            raise ValueError(f"render_mode {render_mode!r} does not exist; {nearest(render_mode, RENDER_MODES)}")
        self.possible_agents = [f"agent_{i}" for i in range(n_agents)]
        self.max_turns = max_turns
        self.render_mode = render_mode
        self.observation_spaces = {agent: FreeText(MAX_TEXT) for agent in self.possible_agents}
        self.action_spaces = {agent: FreeText(MAX_TEXT) for agent in self.possible_agents}
        self.state_space = FreeText(sys.maxsize)
        self._rng: np.random.Generator | None = None  # chooses tasks; shared with snapshots until it is used
        self._seed, self._episodes = 0, 0  # the last seed, and the number of episodes since it was set
        self._now = Progress()

    # --- what an environment or a wrapper implements -------------------------------------------------------------

    @abstractmethod
    def _start(self, item: TaskItem, seed: int) -> Outcome:
        """Start an episode of `item`. All chance follows from the seed."""

    @abstractmethod
    def _advance(self, item: TaskItem, actions: Mapping[str, str], seed: int) -> Outcome:
        """Play one joint action: the texts of the agents that have to act. All chance follows from the seed."""

    @property
    @abstractmethod
    def items(self) -> tuple[TaskItem, ...]:
        """Return the task set."""

    @abstractmethod
    def with_items(self, items: Sequence[TaskItem]) -> TextDecPOMDP:
        """Return a copy with other tasks, which are neither validated nor completed."""

    @property
    def stream(self) -> TaskStream | None:
        """Return the stream of tasks, if `items` cannot hold all; else None. See `envs.streams`."""
        return None

    @property
    def task(self) -> TextDecPOMDP:
        """Return the task inside all protocol wrappers; a task returns itself."""
        return self

    def try_rows(self) -> None:
        """Check the rows of a user before training or evaluation. Default: no check.

        Raises:
            TaskError: No text can be scored on a row; the message names the row, its field and the remedy.
        """

    @property
    def facts(self) -> Facts:
        """Return the properties at the current `max_turns`. Default: `declared`."""
        return self.declared

    def script(self, name: str) -> Script:
        """Return one of the scripted teams `facts.scripts`: a function from an agent and its history to an action.

        The function raises ValueError or KeyError for an unknown task or a history of another environment.

        Raises:
            KeyError: There is no such team; the message names the nearest.
        """
        raise UnknownNameError(f"no script {name!r} of {self.facts.name}; {nearest(name, self.facts.scripts)}")

    def choices(self, agent: str, history: Sequence[Message] = ()) -> Sequence[str]:
        """Return all possible actions after a history, if they are few. Default: (), any text is possible."""
        return ()

    def single_agent(self) -> TextDecPOMDP | None:
        """Return the task's own form for one agent, which the protocol "centralized" plays.

        Default: None; the protocol then wraps the task in `wrappers.Centralized`.
        """
        return None

    def measure(self, groups: Sequence[Group]) -> Mapping[str, Mapping[str, float]]:
        """Return statistics of played episodes besides their scores. Default: none.

        Args:
            groups: Independent episodes of tasks of this environment.

        Returns:
            Tables by name, such as "schemes"; in each, numbers by column name, in % if that ends in " %". Unknown
            numbers are left out. Results store the tables, and every report shows them.
        """
        return {}

    def _hidden(self) -> Mapping[str, Any]:
        """Return the hidden part of the current state as plain data, for `state()`."""
        return {}

    # --- PettingZoo ----------------------------------------------------------------------------------------------

    def observation_space(self, agent: str) -> FreeText:
        """Return the space of all texts; the same object at every call."""
        return self.observation_spaces[agent]  # type: ignore[return-value]

    def action_space(self, agent: str) -> FreeText:
        """Return the space of all texts; the same object at every call."""
        return self.action_spaces[agent]  # type: ignore[return-value]

    @property
    def max_turns(self) -> int:
        """Return the horizon H: the number of turns after which an episode ends."""
        return self._max_turns

    @max_turns.setter
    def max_turns(self, value: int) -> None:
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ValueError(f"max_turns is {value!r}; it must be an integer of at least 1")
        self._max_turns = value

    @property
    def max_cycles(self) -> int:
        """Return `max_turns`, under PettingZoo's name."""
        return self.max_turns

    @max_cycles.setter
    def max_cycles(self, value: int) -> None:
        self.max_turns = value

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, str], dict[str, dict[str, Any]]]:
        """Start an episode.

        Args:
            seed: Seeds the choice of tasks and all chance, for this reset and for all later ones.
            options: `{"task_id": ...}` or `{"index": ...}` chooses the task. A misspelt key, such as `"task"`, raises
                KeyError. Other keys are ignored.

        Returns:
            Observations and infos by agent; infos have the same numeric keys as after every step.

        Raises:
            KeyError, IndexError: There is no such task, or the key of an option is misspelt.
        """
        check_options(options or {})
        if seed is not None or self._rng is None:
            self._rng, self._seed = gym_seeding.np_random(None if seed is None else operator.index(seed))
            self._episodes = 0
        item = self._choose(options or {})
        chance = derive(self._seed, "chance", self._episodes)
        try:
            outcome = self._start(item, derive(chance, "begin"))
        except Exception as error:
            note_episode(error, item.id, {})
            raise
        self._episodes += 1
        everybody = tuple(self.possible_agents)
        there = everybody if outcome.agents is None else ()
        self._now = Progress(item, chance, there, histories={agent: [] for agent in everybody})
        observations = self._now.take(outcome, everybody)
        return {agent: observations[agent] for agent in self.agents}, self._infos(None, self.agents)

    def step(self, actions: Mapping[str, str]) -> StepResult:
        """Play one joint action.

        Args:
            actions: The text of every live agent.

        Returns:
            Observations, rewards (the identical float for all if they are joint), terminations, truncations (always
            False) and infos, for every agent that was live or has joined.

        Raises:
            NotAskedToStepError: The episode is over or has not started.
            TypeError, KeyError: An action is not text, or an agent is missing or unknown.
            EpisodeError: The environment broke the contract; see `envs.episode`.
        """
        item, now, joint = self._check(actions), self._now, self.facts.joint_reward
        there, asked = now.agents, [agent for agent in now.agents if agent in now.asked]
        for agent in asked:
            now.histories[agent].append(Message("action", actions[agent]))
        try:
            outcome = self._advance(item, {agent: actions[agent] for agent in asked}, derive(now.chance, now.turn))
            after = outcome.transition
            rewards = agent_rewards(after, there, joint=joint)
            if now.turn + 1 >= self.max_turns:
                outcome = replace(outcome, transition=(after := replace(after, terminated=True)))
            observations = now.take(outcome, self.possible_agents)
        except BaseException as error:  # interrupted, or a bug: undo the turn, so that it can be tried again
            for agent in asked:
                now.histories[agent].pop()
            if isinstance(error, Exception):
                note_episode(error, item.id, {f"{agent} ({self.role(agent)})": actions[agent] for agent in asked})
            raise
        now.turn += 1
        staying = there if outcome.agents is None else outcome.agents
        joined = after.reward if joint else 0.0
        return (
            observations,
            {agent: rewards.get(agent, joined) for agent in observations},
            {agent: after.terminated or agent not in staying for agent in observations},
            dict.fromkeys(observations, False),
            self._infos(after.score, observations),
        )

    def render(self) -> str | None:
        """Return ("ansi") or print ("human") the episode so far as a transcript; do nothing without a mode."""
        if self.render_mode is None:
            return None
        text = self._transcript() if self._now.item else f"{self.metadata['name']}: no episode yet"
        if self.render_mode == "ansi":
            return text
        from ..printable import Terminal  # imported here, since only this mode needs it

        Terminal().print(text)
        return None

    def close(self) -> None:
        """Do nothing: there is nothing to release."""

    def state(self) -> str:  # type: ignore[override]  # PettingZoo declares an array; here it is text
        """Return the state as JSON: task, turn, joint history and hidden state, without references and tests."""
        now = self._now
        task = {"id": now.item.id, "prompt": now.item.prompt} if now.item else None
        hidden = dict(self._hidden())
        return json.dumps({"task": task, "turn": now.turn, "histories": now.histories, "hidden": hidden})

    # --- beyond PettingZoo ---------------------------------------------------------------------------------------

    def __repr__(self) -> str:
        roles = ", ".join(dict.fromkeys(self.facts.roles))
        tasks = len(self.items) if self.stream is None else f"a stream ({self.stream.place})"
        return f"<{self.metadata['name']}: {roles}; tasks: {tasks}, turns: {self.max_turns}>"

    def role(self, agent: str) -> str:
        """Return the human-readable name of an agent, e.g. "summary"."""
        return self.facts.roles[self.possible_agents.index(agent)]

    def tools(self, agent: str) -> tuple[Tool, ...]:
        """Return an agent's tools.

        An agent calls one by writing `<tool_call>{"name": ..., "arguments": {...}}</tool_call>` in its action.
        """
        return ()

    def can_call(self, agent: str) -> bool:
        """Return whether an agent can call tools, including calls that it chooses by a letter."""
        return bool(self.tools(agent))

    @property
    def item(self) -> TaskItem:
        """Return the task of the current episode with its references, for learners and reports, never for an agent."""
        if self._now.item is None:
            self._refuse("has no task")
        return self._now.item

    @property
    def turn(self) -> int:
        """Return the number of joint actions so far in this episode."""
        return self._now.turn

    @property
    def agents(self) -> list[str]:  # type: ignore[override]  # PettingZoo declares an attribute
        """Return the live agents; none before and after an episode."""
        return list(self._now.agents)

    @property
    def last_score(self) -> Score | None:
        """Return the score of the last scored joint action of this episode, with its notes; None if there is none."""
        return self._now.score

    @property
    def latest(self) -> Outcome:
        """Return the result of the last reset or step, with the team's reward and events."""
        return self._now.latest

    def note_thoughts(self, thoughts: Mapping[str, str]) -> None:
        """Receive the private thoughts behind the next actions, by agent. Default: they are ignored.

        Only a protocol wrapper with `share_thoughts` passes them to teammates.
        """

    def asked(self, agent: str) -> bool:
        """Return whether the agent has to act now."""
        return agent in self._now.asked

    def history(self, agent: str) -> tuple[Message, ...]:
        """Return the agent's own history h_i: its observations and actions, in order."""
        return tuple(self._now.histories[agent])

    def snapshot(self) -> Any:
        """Return the state of the episode as an opaque value for `restore`."""
        return self._now.copy(), self._rng, self._seed, self._episodes

    def restore(self, snapshot: Any) -> None:
        """Restore a snapshot of this environment or of a fork of it."""
        now, self._rng, self._seed, self._episodes = snapshot
        self._now = now.copy()

    def fork(self) -> TextDecPOMDP:
        """Return an independent copy at the same decision point."""
        twin = copy.copy(self)
        twin.observation_spaces = copy.deepcopy(self.observation_spaces)
        twin.action_spaces = copy.deepcopy(self.action_spaces)
        twin.restore(self.snapshot())
        return twin

    # --- inside --------------------------------------------------------------------------------------------------

    def _transcript(self) -> str:
        """Return the messages of every agent in the running or finished episode, and the last score."""
        lines = [f"{self.metadata['name']} / {self.item.id} / turn {self.turn} of {self.max_turns}"]
        for agent in self.possible_agents:
            for role, text, name in self.history(agent):
                verb = {"observation": "observes", "action": "acts", "tool": f"receives from {name}"}[role]
                lines += [f"--- {agent} ({self.role(agent)}) {verb}:", text]
        if self.last_score is not None:
            parts = "  ".join(f"{name} {value:+.3f}" for name, value in self.last_score.components.items())
            lines.append(f"=== score {self.last_score.total:.3f} of {self.facts.score_range[1]:g}:  {parts}")
        return "\n".join(lines)

    def _choose(self, options: Mapping[str, Any]) -> TaskItem:
        if (named := named_item(self.items, options)) is not None:
            return named
        self._rng = copy.deepcopy(self._rng)  # the old one may be shared with forks and snapshots
        return self.items[int(self._rng.integers(len(self.items)))]  # pyright: ignore[reportOptionalMemberAccess]  # seeded

    def _check(self, actions: Mapping[str, str]) -> TaskItem:
        item = self._now.item
        if item is None or not self._now.agents:
            self._refuse("is over" if item else "has not begun")
        if set(actions) != set(self._now.agents):
            agents = self._now.agents
            called = ", ".join(f"{self.role(agent)} is {agent!r}" for agent in agents if self.role(agent) in actions)
            raise UnknownNameError(
                f"actions are for {sorted(actions)}, but the live agents are {self.agents}; give each one text"
                + (f" ({called})" if called else "")
            )
        for agent, action in actions.items():
            if not isinstance(action, str):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise TypeError(
                    f"the action of {agent} is a {type(action).__name__} ({action!r:.60}); actions are text"
                )
        return item

    def _refuse(self, why: str) -> NoReturn:
        raise NotAskedToStepError(f"the episode of {self.metadata['name']} {why}; call reset() first")

    def _infos(self, score: Score | None, agents: Iterable[str]) -> dict[str, dict[str, Any]]:
        numbers = self.facts.numbers(score or Score(0.0, {}))
        return {agent: {**numbers, "asked": float(agent in self._now.asked)} for agent in agents}


def step_many(envs: Sequence[TextDecPOMDP], actions: Sequence[Mapping[str, str]]) -> list[StepResult]:
    """Step many environments, concurrently if their rewards come from the code sandbox.

    If the reward has an LLM judge, a fork of each environment is stepped first. This collects all texts to score, so
    that the judge scores them in one batch.

    Args:
        envs: Environments with a running episode each.
        actions: One joint action per environment.

    Returns:
        The result of `step` of each environment, in order.
    """
    if len(envs) > 1 and any(env.facts.judges_code for env in envs):
        with ThreadPoolExecutor(max_workers=min(len(envs), 32)) as threads:
            futures = [threads.submit(env.step, action) for env, action in zip(envs, actions, strict=True)]
            return [future.result() for future in futures]
    if len(envs) > 1 and (judge := envs[0].facts.judge) is not None:
        with judge.put_off():
            for env, action in zip(envs, actions, strict=True):
                env.fork().step(action)
    return [env.step(action) for env, action in zip(envs, actions, strict=True)]


def first_rows(env: Env, items: int | None) -> Env:
    """Return an environment with the first tasks of a stream; an environment without a stream is returned unchanged.

    Args:
        env: The environment.
        items: The number of tasks; required for a stream.

    Raises:
        TaskError: The tasks are a stream and `items` is None.
    """
    if env.stream is None:
        return env
    if items is None:
        raise TaskError(
            f"the tasks of {env.metadata['name']} are a stream ({env.stream.place}) without a known end; give the "
            "number of tasks to evaluate (items=100, --items 100), or other tasks"
        )
    return env.with_items(env.stream.read(0, items))  # type: ignore[return-value]
