"""Tools for the agents of a task, which may call them for some rounds before they answer.

    env = WithTools(make("humaneval-v0"), [python(), notes()], rounds=3)

In each round, an agent that has to act writes tool calls or its answer. After calls it observes their results and acts
again. After its answer it waits until all other agents have answered. Then the task receives all answers at once. After
`rounds` rounds with calls, the next text of an agent is its answer.

Rounds in which some agent still calls tools have the reward 0. The price of calls (`tools.Limits`) is subtracted from
the team's reward, or from the reward of the agent that calls if rewards are individual.
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


Results = tuple[tuple[str, bool, float], ...]  # result of a call, whether the call was valid, price


class ToolRounds(NamedTuple):
    """The state of `WithTools`."""

    inner: Any  # state of the task
    tools: ToolState = ToolState()
    answers: tuple[tuple[str, Message], ...] = ()  # results of calls, the next observations
    delivered: tuple[tuple[str, str], ...] = ()  # answers of agents that wait
    round: int = 0  # joint actions since the last turn of the task
    turn: int = 0  # turns of the task so far
    beside: tuple[tuple[str, str, Results], ...] = ()  # calls outside of the rounds (method `call`)


class WithTools(TaskWrapper[ToolRounds]):
    """A task whose agents may call tools; see the module.

    Args:
        env: A task without tools and without a protocol. Protocols wrap this wrapper.
        kits: The tools.
        rounds: Maximum number of actions with calls before each answer, at least 1.
        limits: Limits by name of the tool; see `tools.Toolbox`.
        users: Agents or roles by name of the kit; all agents may use a kit that is missing here.

    Raises:
        TypeError: `env` is not a task, or has tools already.
        ValueError: `rounds` is below 1, two tools have the same name, or `limits` or `users` has an unknown name.
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
            raise TypeError(f"{name} is not a task without tools; give one, and let protocols wrap the result")
        task = cast("Task[Any]", env)
        if isinstance(rounds, bool) or not isinstance(rounds, int) or rounds < 1:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ValueError(f"rounds is {rounds!r}; give a whole number of at least 1")
        agents = {kit: self._agents(task, kit, names) for kit, names in (users or {}).items()}
        self.toolbox, self.rounds = Toolbox(kits, limits, agents), rounds
        super().__init__(task, "tools")

    @staticmethod
    def _agents(env: TextDecPOMDP, kit: str, names: Sequence[str]) -> tuple[str, ...]:
        known = [*env.possible_agents, *env.facts.roles]
        if unknown := sorted(set(names) - set(known)):
            raise ValueError(f"users of {kit!r} names {unknown[0]!r}, which is unknown; known: {', '.join(known)}")
        return tuple(agent for agent in env.possible_agents if agent in names or env.role(agent) in names)

    @property
    def facts(self) -> Facts:
        """Return the facts of the task; the range of rewards includes 0 and the price of calls."""
        known = super().facts
        low, high = known.reward_range
        most = self.toolbox.dearest * len(self.possible_agents)
        return replace(known, vocabulary=(), turn_range=(min(low, 0.0) - most, max(high, 0.0)))

    @property
    def max_turns(self) -> int:
        """Return the number of joint actions of the longest episode; setting it rounds the task's turns up."""
        return self.env.max_turns * (self.rounds + 1)

    @max_turns.setter
    def max_turns(self, value: int) -> None:
        self.env.max_turns = -(-value // (self.rounds + 1))

    def tools(self, agent: str) -> tuple[Tool, ...]:
        """Return the tools of an agent."""
        return self.toolbox.tools(agent)

    def call(self, agent: str, text: str) -> tuple[Answered, ...]:
        """Run the tool calls of a text outside of the rounds, for programs that call tools themselves.

        The calls count towards the limits and are added to the agent's history. The next joint action has their events,
        and its reward is reduced by their prices, possibly below `facts.turn_range`.

        Args:
            agent: An agent that has to act now.
            text: A text with tool calls.

        Returns:
            One result per call, in order.

        Raises:
            NotAskedToStepError: The agent does not have to act.
            ValueError: The text has no call.
        """
        if not self.asked(agent):
            raise NotAskedToStepError(f"{agent} does not have to act in {self.metadata['name']}, so it cannot call now")
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
        """Return the state of the episode; see `TextDecPOMDP.snapshot`.

        Raises:
            ValueError: A tool was called whose state cannot be copied.
        """
        state: ToolRounds | None = self._now.latest.transition.state
        if state is not None:
            self.toolbox.check_copyable(state.tools)
        return super().snapshot()

    # --- the rounds ---------------------------------------------------------------------------------------------------

    def initial_state(self, item: TaskItem, seed: int) -> ToolRounds:
        """Return the initial state of the task, with the initial state of the tools."""
        return ToolRounds(self.env.initial_state(item, seed))

    def observations(self, state: ToolRounds) -> Mapping[str, str | Message]:
        """Return the results of calls, or, at a new turn of the task, its observations with a notice about tools."""
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
        """Return None (the agents that observe results of calls), or, at a new turn, the agents of the task."""
        return None if state.round else self.env.asks(state.inner)

    def transition(self, state: ToolRounds, actions: Mapping[str, str], seed: int) -> Transition[ToolRounds]:
        """Run calls, or pass the answers to the task when all agents have answered."""
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
        """Return events and prices (by agent) of the calls outside of the rounds since the last joint action."""
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
        """Return the transition with the prices of calls subtracted."""
        rewards = step.rewards and {agent: paid - prices.get(agent, 0.0) for agent, paid in step.rewards.items()}
        reward = step.reward - sum(prices.values())
        return replace(step, reward=reward, rewards=rewards, events=(*events, *step.events))

    def describe(self, state: ToolRounds) -> Mapping[str, Any]:
        """Return the hidden part of the task's state, and the number of calls of each tool."""
        counts = {f"{agent} {tool}": count for agent, tool, count in state.tools.calls}
        return {**self.env.describe(state.inner), "calls": counts}
