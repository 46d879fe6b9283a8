"""The option `stopping`: every turn of a task costs something, and the team may end an episode.

    env = make("humaneval-v0", max_turns=4, stopping={"cost": 0.1, "who": "main"})

A text ends at its first `<stop>`; what follows is ignored. Only its author and the learner see this mark; the scorer
and the other agents do not, under any protocol. Agents that may stop are told how. With s_t the score of what was
delivered by turn t, s_0 = 0, and T turns played:

    r_t = s_t - s_(t-1) - cost        sum over an episode = s_T - cost T: what was delivered last, less cost per turn

A mark after a text delivers that text as the last one. A mark alone delivers nothing: the last delivered text counts,
even if other agents wrote something in this turn, and the turn costs the same. `who` is "any", "all" (every agent asked
has to stop in the same turn), or a name or role whose agents may stop. Tasks whose `turn_reward` is not "final" are
refused. Where agents are paid individually, each live agent is charged.

Measured (`env.measure`) are the turns that were played, the share of episodes that the team ended, the share that would
have earned more by an earlier end (too late), and what going on lost on average. Whether it stopped too early cannot be
seen.
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

    inner: Any  # that of the task
    over: bool = False  # the team has stopped


class Stopping(TaskWrapper[Stopped]):
    """A task that may be stopped; the module says what that pays.

    Agents that may stop are told so, except where an environment has few words (`facts.vocabulary`, which gains the
    mark). Their choices gain it too. A stop is an event "stop" of each agent that said it.

    Args:
        env: A task of several turns. A protocol goes around this wrapper, not into it.
        cost: Of a turn, in the unit of the score; at least 0.
        who: "any", "all", or the name or role of the agents that may stop; see the module.

    Raises:
        TypeError: `env` is no task, or may be stopped already.
        ValueError: It has one turn, its `turn_reward` is not "final", the cost is negative or not
            finite, or nobody is called `who`.
    """

    def __init__(self, env: TextDecPOMDP, cost: float, who: str = ANY) -> None:
        name = env.metadata["name"]
        if not isinstance(env, Task) or isinstance(env, Stopping):
            raise TypeError(f"{name} is a {type(env).__name__}; stopping wraps a task, and protocols wrap stopping")
        if env.max_turns < 2:
            raise ValueError(f"{name} has one turn, after which nothing is left to stop; set max_turns, at least 2")
        if isinstance(env, TextTask) and env.turn_reward != "final":
            raise ValueError(
                f"turn_reward is {env.turn_reward!r} in {name}: its rewards do not add up to the last score, the "
                "return of a team that stops; use turn_reward='final'"
            )
        if isinstance(cost, bool) or not isinstance(cost, (int, float)) or not 0 <= cost < math.inf:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ValueError(f"cost is {cost!r}; it is the price of a turn, a number of at least 0")
        super().__init__(cast("Task[Any]", env), "stopping")
        self.cost = float(cost)
        self.who = who
        self.may_stop = frozenset(a for a in env.possible_agents if who in (ANY, ALL, a, env.role(a)))
        if not self.may_stop:
            raise ValueError(f"who is {who!r}; {nearest(str(who), [ANY, ALL, *env.facts.roles, *env.possible_agents])}")

    @property
    def facts(self) -> Facts:
        """Others are shown texts up to the mark. A stop alone pays 0, less the cost; "optimal" knows no cost."""
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
        """That of the task."""
        return Stopped(self.env.initial_state(item, seed))

    def observations(self, state: Stopped) -> Mapping[str, str | Message]:
        """What the task says, and to those who may stop how to; nothing after a stop."""
        if state.over:
            return {}
        return {agent: self._with_notice(agent, text) for agent, text in self.env.observations(state.inner).items()}

    def transition(self, state: Stopped, actions: Mapping[str, str], seed: int) -> Transition[Stopped]:
        """Deliver the texts without marks, unless a stop stands alone, and charge the turn."""
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
        """How to stop, for an agent that may; an environment of few words has no words for it."""
        if agent not in self.may_stop or self.env.facts.vocabulary:
            return ""
        together = " It takes all of you in the same turn." if self.who == ALL else ""
        return (
            f"\n\nA turn costs {self.cost:g}. End your text with {MARK} to make it the last, or say {MARK} alone "
            f"to keep what was delivered before.{together}"
        )

    # --- as the task does, and the mark ------------------------------------------------------------------------------

    def measure(self, groups: Sequence[Group]) -> Mapping[str, Mapping[str, float]]:
        """What the task measures, and when the team stopped against an earlier end; see the module."""
        episodes = [e for group in groups for e in group.episodes if not math.isnan(e.total)]
        return {**({"stopping": _earlier_ends(episodes)} if episodes else {}), **self.env.measure(groups)}

    def alone(self) -> TextDecPOMDP | None:
        """The task for one agent that has all tools itself, and that may stop."""
        alone = self.env.alone()
        return alone and Stopping(alone, self.cost)

    def asks(self, state: Stopped) -> Collection[str] | None:
        """As the task does; nobody after a stop."""
        return () if state.over else self.env.asks(state.inner)

    def choices(self, agent: str, history: Sequence[Message] = ()) -> Sequence[str]:
        """Those of the task, and the mark for those who may stop."""
        texts = self.env.choices(agent, history)
        return [*texts, MARK] if texts and agent in self.may_stop else texts

    def script(self, name: str) -> Script:
        """That of the task, which is not told how to stop and never does."""
        if name not in self.facts.scripts:
            return TextDecPOMDP.script(self, name)
        say = self.env.script(name)

        def say_without_notice(agent: str, history: Sequence[Message]) -> str:
            notice = self._notice(agent)
            return say(agent, [message._replace(text=message.text.removesuffix(notice)) for message in history])

        return say_without_notice


def _earlier_ends(episodes: Sequence[Episode]) -> dict[str, float]:
    """Episodes against the best of their earlier ends."""
    lost = [max(itertools.accumulate(e.rewards)) - e.total for e in episodes]
    stopped = [any(event.kind == "stop" for event in e.turns[-1].events) for e in episodes]
    return {
        "turns": fmean(len(e.turns) for e in episodes),
        "stopped %": 100 * fmean(stopped),
        "too late %": 100 * fmean(loss > _SAME for loss in lost),
        "lost by going on": fmean(lost),
    }
