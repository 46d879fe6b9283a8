"""The option `stopping`: every turn of a task has a cost, and the team may end an episode.

    env = make("humaneval-v0", max_turns=4, stopping={"cost": 0.1, "who": "main"})

An agent stops with the mark `<stop>` in its action. The text after the first mark is ignored. Only the agent itself and
the learner see the mark; the scorer and the teammates do not, under any protocol. The observations of agents that may
stop explain the mark. Let s_t be the score of the last delivered joint action at turn t, s_0 = 0, and T the number of
turns:

    r_t = s_t - s_(t-1) - cost        return = s_T - cost T

A mark after a text delivers that text as the last one. A mark without a text delivers nothing: the turn has its cost,
the actions of the other agents in this turn are ignored, and the score remains s_(t-1).

`who` is one of:

* "any": each agent may stop;
* "all": the episode ends only if every agent that has to act stops in the same turn;
* the name of an agent, or a role: only these agents may stop.

A task whose `turn_reward` is not "final" is refused. If rewards are individual, each live agent bears the cost.

`env.measure` returns four statistics: the mean number of turns, the share of episodes that the team ended, the share of
episodes with a higher return at an earlier end (too late), and the mean return lost by continuing. Stopping too early
cannot be measured.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any, NamedTuple, cast

from ...registries import nearest
from ...types import Episode, Event, Group, Message, TaskItem
from ..base import Script, TextDecPOMDP
from ..facts import Facts
from ..task import Task, Transition
from ..text_task import TextTask
from .base import TaskWrapper

MARK = "<stop>"
ANY, ALL = "any", "all"
_SAME = 1e-9


class Stopped(NamedTuple):
    """The state of `Stopping`."""

    inner: Any  # state of the task
    over: bool = False  # True after the team has stopped


class Stopping(TaskWrapper[Stopped]):
    """A task that a team may stop; see the module for the rewards.

    The observations of agents that may stop explain the mark, except in environments with a small vocabulary
    (`facts.vocabulary`). The mark is added to the vocabulary and to the choices of these agents. A stop is recorded as
    an event "stop" of each agent that stopped.

    Args:
        env: A task of several turns without a protocol. Protocols wrap this wrapper.
        cost: Cost of a turn, in the unit of the score; at least 0.
        who: "any", "all", or the name or role of the agents that may stop; see the module.

    Raises:
        TypeError: `env` is not a task, or has this wrapper already.
        ValueError: `env` has one turn, its `turn_reward` is not "final", the cost is negative or not finite, or no
            agent has the name or role `who`.
    """

    def __init__(self, env: TextDecPOMDP, cost: float, who: str = ANY) -> None:
        name = env.metadata["name"]
        if not isinstance(env, Task) or isinstance(env, Stopping):
            raise TypeError(
                f"{name} is a {type(env).__name__}; give a task to Stopping, once, and let protocols wrap the result"
            )
        if env.max_turns < 2:
            raise ValueError(f"{name} has max_turns 1, so no turn is left to stop; set max_turns to at least 2")
        if isinstance(env, TextTask) and env.turn_reward != "final":
            raise ValueError(
                f"turn_reward is {env.turn_reward!r} in {name}; the option stopping needs turn_reward='final', whose "
                "rewards sum to the last score"
            )
        if isinstance(cost, bool) or not isinstance(cost, (int, float)) or not 0 <= cost < math.inf:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ValueError(f"cost is {cost!r}; the cost of a turn must be a finite number of at least 0")
        super().__init__(cast("Task[Any]", env), "stopping")
        self.cost = float(cost)
        self.who = who
        self.may_stop = frozenset(a for a in env.possible_agents if who in (ANY, ALL, a, env.role(a)))
        if not self.may_stop:
            raise ValueError(f"who is {who!r}; {nearest(str(who), [ANY, ALL, *env.facts.roles, *env.possible_agents])}")

    @property
    def facts(self) -> Facts:
        """Return the facts of the task with the mark, the range with the cost, and without the script "optimal".

        Teammates see texts up to the mark. The optimal script does not take the cost into account.
        """
        known = super().facts
        low, high = known.reward_range
        return replace(
            known,
            end_marker=MARK,
            vocabulary=(*known.vocabulary, MARK) if known.vocabulary else (),
            turn_range=(min(low, 0.0) - self.cost, max(high, 0.0)),
            scripts=tuple(name for name in known.scripts if name != "optimal"),
        )

    # --- the decision ------------------------------------------------------------------------------------------------

    def initial_state(self, item: TaskItem, seed: int) -> Stopped:
        """Return the initial state of the task."""
        return Stopped(self.env.initial_state(item, seed))

    def observations(self, state: Stopped) -> Mapping[str, str | Message]:
        """Return the observations of the task, with a notice for agents that may stop; none after a stop."""
        if state.over:
            return {}
        return {agent: self._with_notice(agent, text) for agent, text in self.env.observations(state.inner).items()}

    def transition(self, state: Stopped, actions: Mapping[str, str], seed: int) -> Transition[Stopped]:
        """Pass the texts without marks to the task, unless a mark has no text, and subtract the cost of the turn."""
        texts = {agent: text.partition(MARK)[0] for agent, text in actions.items()}
        stops = [agent for agent in actions if agent in self.may_stop and texts[agent] != actions[agent]]
        over = bool(stops) and (self.who != ALL or len(stops) == len(actions))
        events = tuple(Event("stop", agent, {"why": "it said " + MARK}) for agent in stops if over)
        if over and not all(texts[agent].strip() for agent in stops):
            unpaid = None if self.env.facts.joint_reward else dict.fromkeys(self.env.roster(state.inner), 0.0)
            step = Transition(state.inner, 0.0, rewards=unpaid)
        else:
            step = self.env.transition(state.inner, texts, seed)
        rewards = None if step.rewards is None else {agent: r - self.cost for agent, r in step.rewards.items()}
        return Transition(
            Stopped(step.state, over),
            step.reward - self.cost,
            step.score,
            step.terminated or over,
            rewards,
            (*step.events, *events),
            frozenset() if over else step.reset_history,
        )

    def _with_notice(self, agent: str, content: str | Message) -> str | Message:
        return content if isinstance(content, Message) or not content else content + self._notice(agent)

    def _notice(self, agent: str) -> str:
        """Return the sentence about stopping for an agent that may stop; "" if the vocabulary is small."""
        if agent not in self.may_stop or self.env.facts.vocabulary:
            return ""
        together = " It takes all of you in the same turn." if self.who == ALL else ""
        return (
            f"\n\nA turn costs {self.cost:g}. End your text with {MARK} to make it the last, or say {MARK} alone "
            f"to keep what was delivered before.{together}"
        )

    # --- the task, with the mark -------------------------------------------------------------------------------------

    def measure(self, groups: Sequence[Group]) -> Mapping[str, Mapping[str, float]]:
        """Return the statistics of the task, and a table "stopping"; see the module."""
        episodes = [e for group in groups for e in group.episodes if not math.isnan(e.total)]
        return {**({"stopping": _earlier_ends(episodes)} if episodes else {}), **self.env.measure(groups)}

    def single_agent(self) -> TextDecPOMDP | None:
        """Return the task's own form for one agent, which may stop; None if it has none."""
        alone = self.env.single_agent()
        return alone and Stopping(alone, self.cost)

    def asks(self, state: Stopped) -> Collection[str] | None:
        """Return the agents that have to act in the task; none after a stop."""
        return () if state.over else self.env.asks(state.inner)

    def choices(self, agent: str, history: Sequence[Message] = ()) -> Sequence[str]:
        """Return the choices of the task, and the mark for an agent that may stop."""
        texts = self.env.choices(agent, history)
        return [*texts, MARK] if texts and agent in self.may_stop else texts

    def script(self, name: str) -> Script:
        """Return a script of the task; it never stops, and it receives histories without the notice."""
        if name not in self.facts.scripts:
            return TextDecPOMDP.script(self, name)
        say = self.env.script(name)

        def say_without_notice(agent: str, history: Sequence[Message]) -> str:
            notice = self._notice(agent)
            return say(agent, [message._replace(text=message.text.removesuffix(notice)) for message in history])

        return say_without_notice


def _earlier_ends(episodes: Sequence[Episode]) -> dict[str, float]:
    """Return statistics that compare each episode with the best of its earlier ends."""
    lost = [max(itertools.accumulate(e.rewards)) - e.total for e in episodes]
    stopped = [any(event.kind == "stop" for event in e.turns[-1].events) for e in episodes]
    return {
        "turns": fmean(len(e.turns) for e in episodes),
        "stopped %": 100 * fmean(stopped),
        "too late %": 100 * fmean(loss > _SAME for loss in lost),
        "lost by going on": fmean(lost),
    }
