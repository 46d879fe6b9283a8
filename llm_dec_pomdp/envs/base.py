"""The environment contract: a Dec-POMDP <I, S, {O_i}, {A_i}, R, T, H> whose agents speak.

`TextDecPOMDP` is a `pettingzoo.ParallelEnv[str, str, str]` and does what is the same for all: spaces, seeding, choosing
a task, histories, infos, the end, snapshots, rendering. These derive from it:

* `Task` (`envs.task`): with a hidden state, chance, and agents that come and go;
* `TextTask` (`envs.text_task`): scored texts without any of these;
* protocol wrappers (`envs.wrappers.protocols`), which decide who sees what before an inner environment scores the joint
  action.

An agent that is told nothing gets an empty observation; the action of one that is not asked is ignored.

H belongs to the problem, so the last turn *terminates*, as solving and stopping do, and nothing is worth anything after
it. No environment truncates: that is what a limit outside the task does to a task that would go on.
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
Script = Callable[[str, Sequence[Message]], str]  # from agent and its own history to text
StepResult = tuple[dict[str, str], dict[str, float], dict[str, bool], dict[str, bool], dict[str, dict[str, Any]]]


class NotAskedToStepError(RuntimeError):
    """`step` was called on an environment that has no running episode."""


class TextDecPOMDP(ParallelEnv[str, str, str]):
    """Base of every environment and protocol wrapper; see the module.

    Attributes:
        declared: What a class says of itself; `facts` completes it by options and `max_turns`.
        spec: What `make` built it from; None for an environment that was built without `make`.
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
        self._seed, self._episodes = 0, 0  # of the last seeding, and since then
        self._now = Progress()

    # --- what an environment or a wrapper implements -------------------------------------------------------------

    @abstractmethod
    def _begin(self, item: TaskItem, seed: int) -> Outcome:
        """Begin an episode on `item`. All chance follows from the seed."""

    @abstractmethod
    def _advance(self, item: TaskItem, actions: Mapping[str, str], seed: int) -> Outcome:
        """Play one joint action: the texts of the agents that were asked. All chance follows from the seed."""

    @property
    @abstractmethod
    def items(self) -> tuple[TaskItem, ...]:
        """The task set."""

    @abstractmethod
    def with_items(self, items: Sequence[TaskItem]) -> TextDecPOMDP:
        """A copy that plays other tasks, as they are given."""

    @property
    def stream(self) -> TaskStream | None:
        """Its tasks, where they are read one after the other and `items` cannot hold all; see `envs.streams`."""
        return None

    @property
    def task(self) -> TextDecPOMDP:
        """The task inside all protocol wrappers; a task returns itself."""
        return self

    def try_rows(self) -> None:
        """Try out the rows that a user brought, before a training or an evaluation. Default: nothing is to be tried.

        Raises:
            TaskError: A row that no text can be scored on; the message names it, its field, and what to do.
        """

    @property
    def facts(self) -> Facts:
        """What is true of it at the present `max_turns`. Default: what its class declares."""
        return self.declared

    def script(self, name: str) -> Script:
        """A team without a model, one of `facts.scripts`: what an agent says after its own history.

        It raises ValueError, also as KeyError, where it does not know the task or the history is not of this
        environment.

        Raises:
            KeyError: There is no such team; the message names the nearest.
        """
        raise UnknownNameError(f"no script {name!r} of {self.facts.name}; {nearest(name, self.facts.scripts)}")

    def choices(self, agent: str, history: Sequence[Message] = ()) -> Sequence[str]:
        """One text for each thing that an agent can do after its own history, where these are few.

        Default: (), any text may matter.
        """
        return ()

    def alone(self) -> TextDecPOMDP | None:
        """The same task for one agent that has all tools itself; None where one agent can just write all parts."""
        return None

    def measure(self, groups: Sequence[Group]) -> Mapping[str, Mapping[str, float]]:
        """What is known of played episodes of this family beside their scores. Default: nothing.

        Args:
            groups: Independent episodes of tasks of this environment.

        Returns:
            Tables by name, such as "schemes", and in each the numbers by the name of their column, in % where that ends
            in " %". A number that is not known is left out. Results keep them, and every report shows them.
        """
        return {}

    def _hidden(self) -> Mapping[str, Any]:
        """The hidden part of the present state as plain data, for `state()`."""
        return {}

    # --- PettingZoo ----------------------------------------------------------------------------------------------

    def observation_space(self, agent: str) -> FreeText:
        """Any text (the same object at every call)."""
        return self.observation_spaces[agent]  # type: ignore[return-value]

    def action_space(self, agent: str) -> FreeText:
        """Any text (the same object at every call)."""
        return self.action_spaces[agent]  # type: ignore[return-value]

    @property
    def max_turns(self) -> int:
        """H, the number of turns after which an episode ends."""
        return self._max_turns

    @max_turns.setter
    def max_turns(self, value: int) -> None:
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ValueError(f"max_turns is {value!r}; it must be an integer of at least 1")
        self._max_turns = value

    @property
    def max_cycles(self) -> int:
        """PettingZoo's name for `max_turns`."""
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
            options: `{"task_id": ...}` or `{"index": ...}` chooses the task; a key that is almost one of these is
                refused (`"task"`), any other is ignored.

        Returns:
            Observations (what each agent is told) and infos (the same numeric keys as after every step).

        Raises:
            KeyError, IndexError: There is no such task, or no such option.
        """
        check_options(options or {})
        if seed is not None or self._rng is None:
            self._rng, self._seed = gym_seeding.np_random(None if seed is None else operator.index(seed))
            self._episodes = 0
        item = self._choose(options or {})
        chance = derive(self._seed, "chance", self._episodes)
        try:
            outcome = self._begin(item, derive(chance, "begin"))
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
            Observations, rewards (the identical float for all, where they are joint), terminations, truncations (always
            False), infos: for every agent that was there or has joined.

        Raises:
            NotAskedToStepError: The episode is over or has not begun.
            TypeError, KeyError: An action is not text, or an agent is missing or unknown.
            EpisodeError: The environment told, asked, paid or added an agent that it must not.
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
        except BaseException as error:  # interrupted, or a bug: the turn was not played, and may be tried again
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
        """The episode so far as a transcript: returned for "ansi", printed for "human", nothing without a mode."""
        if self.render_mode is None:
            return None
        text = self._transcript() if self._now.item else f"{self.metadata['name']}: no episode yet"
        if self.render_mode == "ansi":
            return text
        from ..visible import Terminal  # only people need it

        Terminal().print(text)
        return None

    def close(self) -> None:
        """Nothing to release; safe to call any number of times."""

    def state(self) -> str:  # type: ignore[override]  # PettingZoo's own state is an array; ours is text, like the rest
        """The full state as JSON: task, turn, joint history, and the hidden state. No references, no tests."""
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
        """The human name of an agent, e.g. "summary"."""
        return self.facts.roles[self.possible_agents.index(agent)]

    def tools(self, agent: str) -> tuple[Tool, ...]:
        """What the agent may call in a text, by `<tool_call>{"name": ..., "arguments": {...}}</tool_call>`."""
        return ()

    @property
    def item(self) -> TaskItem:
        """The task of the current episode, references included: for learners and reports, never for an agent."""
        if self._now.item is None:
            self._refuse("has no task")
        return self._now.item

    @property
    def turn(self) -> int:
        """How many joint actions were played in this episode."""
        return self._now.turn

    @property
    def agents(self) -> list[str]:  # type: ignore[override]  # PettingZoo declares an attribute
        """The live agents; none before and after an episode."""
        return list(self._now.agents)

    @property
    def last_score(self) -> Score | None:
        """Score of the last scored joint action of this episode, with its notes; None before."""
        return self._now.score

    @property
    def latest(self) -> Outcome:
        """What the last reset or step produced, the team's reward and events included."""
        return self._now.latest

    def asked(self, agent: str) -> bool:
        """True while the agent owes an answer."""
        return agent in self._now.asked

    def history(self, agent: str) -> tuple[Message, ...]:
        """The agent's own history h_i: what it was told and said, in order."""
        return tuple(self._now.histories[agent])

    def snapshot(self) -> Any:
        """The state of the episode as an opaque value for `restore`."""
        return self._now.copy(), self._rng, self._seed, self._episodes

    def restore(self, snapshot: Any) -> None:
        """Go back to a snapshot of this environment or of a fork of it."""
        now, self._rng, self._seed, self._episodes = snapshot
        self._now = now.copy()

    def fork(self) -> TextDecPOMDP:
        """An independent copy at the same decision point."""
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
                verb = {"observation": "observation", "action": "says", "tool": f"gets from {name}"}[role]
                lines += [f"--- {agent} ({self.role(agent)}) {verb}:", text]
        if self.last_score is not None:
            parts = "  ".join(f"{name} {value:+.3f}" for name, value in self.last_score.components.items())
            lines.append(f"=== score {self.last_score.total:.3f} of {self.facts.score_range[1]:g}:  {parts}")
        return "\n".join(lines)

    def _choose(self, options: Mapping[str, Any]) -> TaskItem:
        if (named := named_item(self.items, options)) is not None:
            return named
        self._rng = copy.deepcopy(self._rng)  # forks and snapshots keep the one they share
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
    """Step many environments, concurrently where their rewards come from another process.

    Where a language model judges, copies step first, so that it is asked about all texts at once.

    Args:
        envs: Environments with a running episode each.
        actions: One joint action per environment.
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
    """Return an environment of the first tasks of a stream; an environment without a stream is returned unchanged.

    Args:
        env: The environment.
        items: How many tasks to take.

    Raises:
        TaskError: The tasks are a stream and `items` is None.
    """
    if env.stream is None:
        return env
    if items is None:
        raise TaskError(
            f"the tasks of {env.metadata['name']} are a stream ({env.stream.place}), of which an evaluation does not "
            "know the end; say how many of its tasks to take (items=100, --items 100), or give others"
        )
    return env.with_items(env.stream.read(0, items))  # type: ignore[return-value]
