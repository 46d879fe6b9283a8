"""The environment contract: a Dec-POMDP <I, S, {O_i}, {A_i}, R, T, H> whose agents speak.

`TextDecPOMDP` is a `pettingzoo.ParallelEnv[str, str, str]` and does what is the same for all: spaces, seeding, choosing
a task, histories, infos, truncation, snapshots, rendering. Two kinds of environments derive from it:

* `TextTask` (`envs.text_task`), a task of its own: say what each agent is told (`observe`), what a joint action is
  worth (`score`), and, with more than one turn, what comes next (`transition`);
* protocol wrappers (`envs.wrappers.protocols`), which decide who sees what before an inner environment scores the joint
  action.

An agent that is not asked at a turn gets an empty observation, and its action is ignored.
"""

from __future__ import annotations

import copy
import functools
import json
import operator
import re
import sys
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn

import numpy as np
from gymnasium.utils import seeding as gym_seeding
from pettingzoo import ParallelEnv

from ..registry import nearest
from ..spaces import FreeText
from ..types import Score, TaskItem
from .transcript import transcript

RENDER_MODES = ("ansi", "human")
MAX_TEXT = 10_000_000
StepResult = tuple[dict[str, str], dict[str, float], dict[str, bool], dict[str, bool], dict[str, dict[str, Any]]]


class NotAskedToStepError(RuntimeError):
    """`step` was called on an environment that has no running episode."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one advance of an environment produced.

    Attributes:
        observations: For every agent; empty text for agents that are not asked next.
        score: The value of the joint action, None when this turn is not scored (a draft).
        reward: What the turn pays the team; NaN where the score is.
        terminated: The task is over.
    """

    observations: Mapping[str, str]
    score: Score | None
    reward: float
    terminated: bool = False


@dataclass(slots=True)
class _Progress:
    """Everything that changes during an episode; `delivered` is the last score that is known, 0 before."""

    item: TaskItem | None = None
    turn: int = 0
    histories: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    score: Score | None = None
    scored: bool = False
    delivered: float = 0.0

    def copy(self) -> _Progress:
        """An independent copy; tasks and scores never change and are shared."""
        return replace(self, histories={agent: list(texts) for agent, texts in self.histories.items()})


class TextDecPOMDP(ParallelEnv[str, str, str]):
    """Base of every environment and protocol wrapper; see the module for who implements what.

    Attributes:
        roles: Human name of every agent, in agent order.
        score_range: Lowest and highest score of a joint action.
        components: Names of the score's parts; every info carries `reward/<name>` for each.
        diagnostics: Names of further numbers that explain the reward; every info carries `diagnostic/<name>` for each.
        state_space: Space of `state()`: JSON text.
        max_turns: H; running out of turns is truncation. `max_cycles` is the same number under PettingZoo's name.
        last_score: The score of the last scored joint action of this episode, with its notes; None before.
        judges_code: True when `step` waits for another process, so that stepping copies in threads pays.
        hears_others: True where agents may be told each other's texts; elsewhere `check_env` takes that for a leak.
        parts_per_action: How many agents' parts one action holds; a policy's token budget is per part.
    """

    metadata: dict[str, Any] = {"render_modes": list(RENDER_MODES), "name": "text_dec_pomdp", "is_parallelizable": True}
    roles: Sequence[str]
    score_range: tuple[float, float]
    components: Sequence[str]
    diagnostics: Sequence[str] = ()
    judges_code: bool = False
    hears_others: bool = False
    parts_per_action: int = 1

    def __init__(self, n_agents: int, max_turns: int, render_mode: str | None) -> None:
        if render_mode is not None and render_mode not in RENDER_MODES:
            raise ValueError(f"render_mode {render_mode!r} does not exist; {nearest(render_mode, RENDER_MODES)}")
        self.possible_agents = [f"agent_{i}" for i in range(n_agents)]
        self.agents: list[str] = []
        self.max_turns = max_turns
        self.render_mode = render_mode
        self.observation_spaces = {agent: FreeText(MAX_TEXT) for agent in self.possible_agents}
        self.action_spaces = {agent: FreeText(MAX_TEXT) for agent in self.possible_agents}
        self.state_space = FreeText(sys.maxsize)
        self._rng: np.random.Generator | None = None
        self._now = _Progress()

    # --- what an environment or a wrapper says -------------------------------------------------------------------

    @abstractmethod
    def _begin(self, item: TaskItem) -> Mapping[str, str]:
        """First observations of an episode on `item`."""

    @abstractmethod
    def _advance(self, item: TaskItem, actions: Mapping[str, str]) -> Outcome:
        """Play one joint action: the texts of the agents that were asked."""

    @property
    @abstractmethod
    def reward_range(self) -> tuple[float, float]:
        """Lowest and highest joint reward of one turn."""

    @property
    @abstractmethod
    def items(self) -> tuple[TaskItem, ...]:
        """The task set."""

    def split_joint_text(self, text: str) -> tuple[str, ...]:
        """Cut one text that holds every agent's part into the parts, for one agent that writes them all.

        Parts stand under header lines `[role]`; a text without any header is the first part.
        """
        roles = "|".join(re.escape(role) for role in self.roles)
        pieces = re.split(rf"(?im)^[ \t]*\[({roles})\][ \t]*:?", text)
        if len(pieces) == 1:
            return (text, *[""] * (len(self.roles) - 1))
        found: dict[str, str] = {}
        for role, part in zip(pieces[1::2], pieces[2::2], strict=True):
            found.setdefault(role.lower(), part.strip())
        return tuple(found.get(role.lower(), "") for role in self.roles)

    def join_texts(self, texts: Sequence[str]) -> str:
        """The inverse of `split_joint_text`: one text that holds every agent's part."""
        return "\n".join(f"[{role}]\n{text}" for role, text in zip(self.roles, texts, strict=True))

    # --- PettingZoo ----------------------------------------------------------------------------------------------

    def observation_space(self, agent: str) -> FreeText:
        """Any text (the same object at every call)."""
        return self.observation_spaces[agent]  # type: ignore[return-value]

    def action_space(self, agent: str) -> FreeText:
        """Any text (the same object at every call)."""
        return self.action_spaces[agent]  # type: ignore[return-value]

    @property
    def max_turns(self) -> int:
        """H, the number of turns after which an episode is truncated."""
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
            seed: Seeds the choice of tasks, for this reset and for all later ones.
            options: `{"task_id": ...}` or `{"index": ...}` chooses the task; other keys are ignored.

        Returns:
            Observations (what each agent is told) and infos (the same numeric keys as after every step).
        """
        if seed is not None or self._rng is None:
            self._rng, _ = gym_seeding.np_random(None if seed is None else operator.index(seed))
        item = self._choose(options or {})
        self.agents = list(self.possible_agents)
        self._now = _Progress(item=item, histories={agent: [] for agent in self.agents})
        first = self._begin(item)
        observations = {agent: first.get(agent, "") for agent in self.agents}
        self._remember(observations)
        return observations, self._infos(None)

    def step(self, actions: Mapping[str, str]) -> StepResult:
        """Play one joint action.

        Args:
            actions: The text of every live agent.

        Returns:
            Observations, rewards (the identical float for all), terminations, truncations, infos.

        Raises:
            NotAskedToStepError: The episode is over or has not begun.
            TypeError, KeyError: An action is not text, or an agent is missing or unknown.
        """
        item = self._check(actions)
        asked = [agent for agent in self.agents if self.asked(agent)]
        for agent in asked:
            self._now.histories[agent].append(actions[agent])
        try:
            outcome = self._advance(item, {agent: actions[agent] for agent in asked})
        except BaseException:  # interrupted, or a bug: the turn was not played, and may be tried again
            for agent in asked:
                self._now.histories[agent].pop()
            raise
        self._now.turn += 1
        self._now.scored = outcome.score is not None
        if outcome.score is not None:
            self._now.score = outcome.score
            if outcome.score.scorable:
                self._now.delivered = outcome.score.total
        truncated = not outcome.terminated and self._now.turn >= self.max_turns
        live = self.agents
        observations = {agent: outcome.observations.get(agent, "") for agent in live}
        self._remember(observations)
        if outcome.terminated or truncated:
            self.agents = []
        return (
            observations,
            dict.fromkeys(live, outcome.reward),
            dict.fromkeys(live, outcome.terminated),
            dict.fromkeys(live, truncated),
            self._infos(outcome.score),
        )

    def render(self) -> str | None:
        """The episode so far as a transcript: returned for "ansi", printed for "human", nothing without a mode."""
        if self.render_mode is None:
            return None
        text = transcript(self) if self._now.item else f"{self.metadata['name']}: no episode yet"
        if self.render_mode == "ansi":
            return text
        from rich.console import Console  # only people need it

        printable = text.encode("utf-8", "backslashreplace").decode()  # terminals have no lone surrogates
        Console().print(printable, markup=False, highlight=False)
        return None

    def close(self) -> None:
        """Nothing to release; safe to call any number of times."""

    def state(self) -> str:  # type: ignore[override]  # PettingZoo's own state is an array; ours is text, like the rest
        """The full accessible state as JSON: task, turn, joint history, last known score. No references, no tests."""
        now = self._now
        task = {"id": now.item.id, "prompt": now.item.prompt} if now.item else None
        return json.dumps({"task": task, "turn": now.turn, "histories": now.histories, "delivered": now.delivered})

    # --- beyond PettingZoo ---------------------------------------------------------------------------------------

    def role(self, agent: str) -> str:
        """The human name of an agent, e.g. "summary"."""
        return self.roles[self.possible_agents.index(agent)]

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
    def last_score(self) -> Score | None:
        """Score of the last scored joint action of this episode."""
        return self._now.score

    @property
    def scored(self) -> bool:
        """True when the last step was scored; drafts are not."""
        return self._now.scored

    def asked(self, agent: str) -> bool:
        """True while the agent owes an answer to its last observation."""
        return len(self._now.histories[agent]) % 2 == 1

    def history(self, agent: str) -> tuple[str, ...]:
        """The agent's own history h_i = (o_0, a_0, ..., o_t); turns in which it was not asked are not in it."""
        return tuple(self._now.histories[agent])

    def snapshot(self) -> Any:
        """The state of the episode as an opaque value for `restore`."""
        return list(self.agents), self._now.copy(), copy.deepcopy(self._rng)

    def restore(self, snapshot: Any) -> None:
        """Go back to a snapshot of this environment or of a fork of it."""
        agents, now, rng = snapshot
        self.agents, self._now, self._rng = list(agents), now.copy(), copy.deepcopy(rng)

    def fork(self) -> TextDecPOMDP:
        """An independent copy at the same decision point."""
        twin = copy.copy(self)
        twin.observation_spaces = copy.deepcopy(self.observation_spaces)
        twin.action_spaces = copy.deepcopy(self.action_spaces)
        twin.restore(self.snapshot())
        return twin

    # --- inside --------------------------------------------------------------------------------------------------

    def _choose(self, options: Mapping[str, Any]) -> TaskItem:
        items = self.items
        if "task_id" in options:
            wanted = options["task_id"]
            for item in items:
                if item.id == wanted:
                    return item
            raise KeyError(f"no task {wanted!r} among {len(items)}; {nearest(str(wanted), (i.id for i in items))}")
        if "index" in options:
            index = options["index"]
            position = operator.index(index) if hasattr(index, "__index__") else -1
            if not 0 <= position < len(items):
                raise IndexError(f"task index {index!r} is not in 0..{len(items) - 1}")
            return items[position]
        assert self._rng is not None
        return items[int(self._rng.integers(len(items)))]

    def _check(self, actions: Mapping[str, str]) -> TaskItem:
        item = self._now.item
        if item is None or not self.agents:
            self._refuse("is over" if item else "has not begun")
        if set(actions) != set(self.agents):
            raise KeyError(
                f"actions are for {sorted(actions)}, but the live agents are {self.agents}; give each one text"
            )
        for agent, action in actions.items():
            if not isinstance(action, str):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise TypeError(
                    f"the action of {agent} is a {type(action).__name__} ({action!r:.60}); actions are text"
                )
        return item

    def _refuse(self, why: str) -> NoReturn:
        raise NotAskedToStepError(f"the episode of {self.metadata['name']} {why}; call reset() first")

    def _remember(self, observations: Mapping[str, str]) -> None:
        for agent, text in observations.items():
            if text:
                self._now.histories[agent].append(text)

    def _infos(self, score: Score | None) -> dict[str, dict[str, Any]]:
        parts: Mapping[str, float] = score.components if score is not None else {}
        facts: Mapping[str, float] = score.diagnostics if score is not None else {}
        rewards, diagnostics = self._info_names
        info: dict[str, Any] = {shown: float(parts.get(name, 0.0)) for name, shown in rewards.items()}
        info |= {shown: float(facts.get(name, 0.0)) for name, shown in diagnostics.items()}
        return {agent: info.copy() for agent in self.possible_agents}

    @functools.cached_property
    def _info_names(self) -> tuple[dict[str, str], dict[str, str]]:
        """Reward parts and diagnostics as they are called in infos."""
        return {n: f"reward/{n}" for n in self.components}, {n: f"diagnostic/{n}" for n in self.diagnostics}


def step_many(envs: Sequence[TextDecPOMDP], actions: Sequence[Mapping[str, str]]) -> list[StepResult]:
    """Step many environments, concurrently where their rewards come from another process.

    Args:
        envs: Environments with a running episode each.
        actions: One joint action per environment.
    """
    if len(envs) > 1 and any(env.judges_code for env in envs):
        with ThreadPoolExecutor(max_workers=min(len(envs), 32)) as threads:
            futures = [threads.submit(env.step, action) for env, action in zip(envs, actions, strict=True)]
            return [future.result() for future in futures]
    return [env.step(action) for env, action in zip(envs, actions, strict=True)]
