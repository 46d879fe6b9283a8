"""Tools for the agents of a task, for some rounds before what they deliver.

    env = WithTools(make("humaneval-v0"), [python(), notes()], rounds=3)

Every agent that is asked may write calls instead of its answer, and is told what they gave; one that writes an answer
waits until the others have theirs. Then the task gets all answers at once. In the last round whatever an agent writes
is its answer. Rounds without an answer of all pay 0; the price of calls (`tools.Limits`) is taken from the team's
reward, or from that of the agent that calls where agents are paid individually.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, cast

from ...types import Event, Message, TaskItem, Tool
from ..base import NotAskedToStepError, TextDecPOMDP
from ..facts import Facts
from ..task import Task, Transition
from ..tools.function import Kit
from ..tools.toolbox import Answered, Limits, Toolbox, ToolState
from .base import TaskWrapper

_LAST = "\n\nYour next text is your answer."


Results = tuple[tuple[str, bool, float], ...]  # answer, whether it is one, price


class ToolRounds(NamedTuple):
    """The state of `WithTools`."""

    inner: Any  # that of the task
    tools: ToolState = ToolState()
    answers: tuple[tuple[str, Message], ...] = ()  # what calls gave, to be told next
    delivered: tuple[tuple[str, str], ...] = ()  # the answers of agents that wait
    round: int = 0  # joint actions since the task asked
    turn: int = 0  # turns of the task that were played
    beside: tuple[
        tuple[str, str, Results], ...
    ] = ()  # calls beside the rounds: agent, text, what each of its calls gave


class WithTools(TaskWrapper[ToolRounds]):
    """A task whose agents may call tools; see the module.

    Args:
        env: A task. A protocol goes around this wrapper, not into it.
        kits: The tools.
        rounds: Texts with calls before each answer, at least 1.
        limits: By name of the tool; see `tools.Toolbox`.
        users: By name of the kit, the agents or roles that have it; all where it is missing.

    Raises:
        TypeError: `env` is no task, or has tools already.
        ValueError: There are no rounds, tools have the same name, or limits or users name what is not there.
    """

    def __init__(
        self,
        env: TextDecPOMDP,
        kits: Sequence[Kit],
        *,
        rounds: int = 3,
        limits: Mapping[str, Limits] | None = None,
        users: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        name = env.metadata["name"]
        if not isinstance(env, Task) or any(env.tools(agent) for agent in env.possible_agents):
            raise TypeError(f"{name} is no task without tools; give one, and put protocols around this wrapper")
        task = cast("Task[Any]", env)
        if isinstance(rounds, bool) or not isinstance(rounds, int) or rounds < 1:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ValueError(f"rounds is {rounds!r}; agents may call tools in at least 1")
        agents = {kit: self._agents(task, kit, names) for kit, names in (users or {}).items()}
        self.toolbox, self.rounds = Toolbox(kits, limits, agents), rounds
        super().__init__(task, "tools")

    @staticmethod
    def _agents(env: TextDecPOMDP, kit: str, names: Sequence[str]) -> tuple[str, ...]:
        known = [*env.possible_agents, *env.facts.roles]
        if unknown := sorted(set(names) - set(known)):
            raise ValueError(f"users of {kit!r} has {unknown[0]!r}, who is not there; there are {', '.join(known)}")
        return tuple(agent for agent in env.possible_agents if agent in names or env.role(agent) in names)

    @property
    def facts(self) -> Facts:
        """A turn may also pay nothing, less what calls cost."""
        known = super().facts
        low, high = known.reward_range
        most = self.toolbox.dearest * len(self.possible_agents)
        return replace(known, vocabulary=(), turn_range=(min(low, 0.0) - most, max(high, 0.0)))

    @property
    def max_turns(self) -> int:
        """Joint actions in the longest episode; setting it sets that of the task to the next whole number of turns."""
        return self.env.max_turns * (self.rounds + 1)

    @max_turns.setter
    def max_turns(self, value: int) -> None:
        self.env.max_turns = -(-value // (self.rounds + 1))

    def tools(self, agent: str) -> tuple[Tool, ...]:
        """What the agent may call."""
        return self.toolbox.tools(agent)

    def call(self, agent: str, text: str) -> tuple[Answered, ...]:
        """Run the calls of a text beside the rounds, while its agent owes one: for programs that call tools themselves.

        They count for the limits and are in the agent's history. The next joint action pays their prices, which come on
        top of `facts.turn_range`, and has their events.

        Raises:
            NotAskedToStepError: The agent owes no text.
            ValueError: The text has no call.
        """
        if not self.asked(agent):
            raise NotAskedToStepError(f"{agent} is not asked in {self.metadata['name']}, and cannot call now")
        calls = self.toolbox.calls(agent, text)
        if not calls:
            raise ValueError(f"{text!r:.80} has no call; write one as <tool_call>{{...}}</tool_call>")
        state: ToolRounds = self._now.latest.transition.state
        tools, answered = self.toolbox.answer(state.tools, agent, calls)
        results = tuple((answer.answer, answer.valid, answer.price) for answer in answered)
        state = state._replace(tools=tools, beside=(*state.beside, (agent, text, results)))
        latest = self._now.latest
        self._now.latest = replace(latest, transition=replace(latest.transition, state=state))
        self._now.histories[agent] += [Message("action", text), self.toolbox.message(answered)]
        return answered

    def snapshot(self) -> Any:
        """As elsewhere.

        Raises:
            ValueError: A tool was called of whose state there can be no copy.
        """
        state: ToolRounds | None = self._now.latest.transition.state
        if state is not None:
            self.toolbox.check_copyable(state.tools)
        return super().snapshot()

    # --- the rounds ---------------------------------------------------------------------------------------------------

    def initial_state(self, item: TaskItem, seed: int) -> ToolRounds:
        """That of the task, with tools as they are at first."""
        return ToolRounds(self.env.initial_state(item, seed))

    def observations(self, state: ToolRounds) -> Mapping[str, str | Message]:
        """What calls gave; after an answer of all, what the task says, and how to call tools."""
        if not state.round:
            return {
                agent: self._with_notice(agent, message)
                for agent, message in self.env.observations(state.inner).items()
            }
        last = _LAST if state.round >= self.rounds else ""
        return {agent: message._replace(text=message.text + last) for agent, message in state.answers}

    def _with_notice(self, agent: str, message: str | Message) -> str | Message:
        notice = self.toolbox.notice(agent)
        if not notice or not message:
            return message
        if isinstance(message, Message):
            return message._replace(text=f"{message.text}\n\n{notice}")
        return f"{message}\n\n{notice}"

    def asks(self, state: ToolRounds) -> Collection[str] | None:
        """Those whose calls were answered; after an answer of all, as the task does."""
        return None if state.round else self.env.asks(state.inner)

    def transition(self, state: ToolRounds, actions: Mapping[str, str], seed: int) -> Transition[ToolRounds]:
        """Answer calls, or hand the answers of all to the task."""
        tools, (events, prices) = state.tools, self._beside(state)
        answers, delivered = dict[str, Message](), dict(state.delivered)
        for agent, text in actions.items():
            calls = self.toolbox.calls(agent, text) if state.round < self.rounds else ()
            if not calls:
                delivered[agent] = text
                continue
            tools, answered = self.toolbox.answer(tools, agent, calls)
            events += self.toolbox.events(agent, answered)
            prices[agent] = prices.get(agent, 0.0) + sum(answer.price for answer in answered)
            answers[agent] = self.toolbox.message(answered)
        if answers:
            following = ToolRounds(
                state.inner, tools, tuple(answers.items()), tuple(delivered.items()), state.round + 1, state.turn
            )
            step = Transition(following, 0.0, rewards=self._unpaid(state))
        else:
            order = [agent for agent in self.env.roster(state.inner) if agent in delivered]
            inner = self.env.transition(state.inner, {agent: delivered[agent] for agent in order}, seed)
            over = inner.terminated or state.turn + 1 >= self.env.max_turns
            step = replace(inner, state=ToolRounds(inner.state, tools, turn=state.turn + 1), terminated=over)
        return self._charged(step, prices, tuple(events))

    def _beside(self, state: ToolRounds) -> tuple[list[Event], dict[str, float]]:
        """Events and prices of the calls beside the rounds since the last joint action."""
        events, prices = list[Event](), dict[str, float]()
        for agent, text, results in state.beside:
            calls = self.toolbox.calls(agent, text)
            events += self.toolbox.events(agent, [Answered(c, *t) for c, t in zip(calls, results, strict=True)])
            prices[agent] = prices.get(agent, 0.0) + sum(price for _, _, price in results)
        return events, prices

    def _unpaid(self, state: ToolRounds) -> Mapping[str, float] | None:
        return None if self.env.facts.joint_reward else dict.fromkeys(self.env.roster(state.inner), 0.0)

    def _charged(
        self, step: Transition[ToolRounds], prices: Mapping[str, float], events: tuple[Event, ...]
    ) -> Transition[ToolRounds]:
        """The transition less the prices of calls."""
        rewards = step.rewards and {agent: paid - prices.get(agent, 0.0) for agent, paid in step.rewards.items()}
        reward = step.reward - sum(prices.values())
        return replace(step, reward=reward, rewards=rewards, events=(*events, *step.events))

    def describe(self, state: ToolRounds) -> Mapping[str, Any]:
        """As the task does, and how often each tool was called."""
        counts = {f"{agent} {tool}": count for agent, tool, count in state.tools.calls}
        return {**self.env.describe(state.inner), "calls": counts}
