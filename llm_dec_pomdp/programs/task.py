"""An agent program as an environment.

A call of a role is a request to act: the agent of this role observes the messages of the call and answers with its
action. Calls that are open at the same time are answered in the same turn. The episode ends when the program returns,
and its result is scored.

The state of an episode is a value: the task, the seed, and all calls and replies. A running program is a cache of it.
Forks start the program again and give it the same replies, so the program has to be deterministic given replies and
`roles.seed`. A replay that differs raises `ProgramError`.
"""

from __future__ import annotations

import functools
import logging
import math
import threading
import weakref
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Unpack, cast

import numpy as np

from ..envs.episode import EpisodeError, Transition
from ..envs.facts import Facts
from ..envs.task import Task, TaskOptions
from ..envs.tasks import Tasks, TaskSource
from ..registries import nearest
from ..types import Event, Message, Score, TaskItem, Tool
from .chat import Call, ChatMessage, conversation_after, observed
from .session import CommandSession, Ending, Session, ThreadSession

_log = logging.getLogger(__name__)
Solve = Callable[..., Any]
"""A program: `solve(task, roles)` returns the result. `task` is a row as a dictionary, `roles` is a `Roles`."""
ScoreFunction = Callable[[Mapping[str, Any], Any], float]
"""Returns the score of a result: `score(task, result)`."""
RewardsFunction = Callable[[Mapping[str, Any], Any, Sequence[Mapping[str, Any]]], Mapping[str, float]]
"""Returns the reward of each role: `rewards(task, result, trace)`. `trace` lists role, messages and reply of each
call."""
_PART = "score"


class ProgramError(EpisodeError):
    """A program made other calls in a replay than before."""


class Exchange(NamedTuple):
    """A call and the agent's text."""

    role: str
    call: Call
    text: str


@dataclass(frozen=True)
class ProgramState:
    """The state of an episode.

    Attributes:
        item: The task.
        seed: The seed of the program.
        turns: The answered calls by turn, in agent order.
        calls: The calls that wait for replies, by role.
        conversations: The last conversation of each role, with its reply.
        observed: What each called role observes.
        reset: Roles whose history is reset by their call.
        ending: The end of the program; None while it runs.
    """

    item: TaskItem
    seed: int
    turns: tuple[tuple[Exchange, ...], ...] = ()
    calls: tuple[tuple[str, Call], ...] = ()
    conversations: tuple[tuple[str, tuple[ChatMessage, ...]], ...] = ()
    observed: tuple[tuple[str, Message], ...] = ()
    reset: frozenset[str] = frozenset()
    ending: bool = False


class Running:
    """The running programs of an environment and its forks, by the identity of a state."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sessions: dict[int, tuple[weakref.finalize[Any, ProgramState], Session]] = {}

    def put(self, state: ProgramState, session: Session) -> None:
        """Store the program of a state; it is ended when the state is no longer referenced."""
        with self._lock:
            closing = weakref.finalize(state, self._drop, id(state))
            closing.atexit = False
            self._sessions[id(state)] = closing, session

    def take(self, state: ProgramState) -> Session | None:
        """Return the program that is in a state, for one use; None if there is none."""
        with self._lock:
            closing, session = self._sessions.pop(id(state), (None, None))
        if closing is not None:
            closing.detach()
        return session

    def _drop(self, identity: int) -> None:
        _, session = self._sessions.pop(identity, (None, None))
        if session is not None:
            session.close()

    def __reduce__(self) -> tuple[Any, ...]:
        return Running, ()


class ProgramTask(Task[ProgramState]):
    """The environment of an agent program that you already have, also called `from_program`.

        def solve(task, roles):
            plan = roles["planner"].chat(task["prompt"])
            return roles["coder"].chat(f"Follow the plan.\\n{plan}")

        env = from_program(solve, roles=["planner", "coder"], tasks="tasks.jsonl", score=score)

    Args:
        solve: A function `solve(task, roles)`, synchronous or `async`, which returns the result. It calls roles by
            `roles[NAME].chat`, or by an OpenAI client with `roles[NAME].base_url` and `roles[NAME].api_key`. Or a
            command as a list of texts, see `session.CommandSession`.
        roles: Names of the roles; each is an agent.
        tasks: Rows with `prompt`, as for every environment; see `envs.tasks.load_tasks`.
        score: Returns the score of a result, `score(task, result)`; None: the reward comes from `rewards`.
        rewards: Returns a reward for each role, `rewards(task, result, trace)`; None: all receive the score.
        choices: Texts by role, if a role chooses among a few texts; a table can then be the policy.
        name: The name of the environment; "": the name of the function or command.
        score_range: Lowest and highest score.
        reward_range: Lowest and highest reward of a turn, if the program calls `reward`; None: `score_range`.
        window: Seconds without a new request after which a program over HTTP is assumed to wait for replies.
        timeout: Seconds that the program may run without a call; then the episode has no score (NaN).
        common: `split`, `fields`, `max_turns` (default 16), ...; see `envs.task.Task`.

    Raises:
        ValueError: The program, the roles or the reward functions are missing or unusable.
        TaskError: The tasks cannot be read.
    """

    def __init__(
        self,
        solve: Solve | Sequence[str],
        *,
        roles: Sequence[str],
        tasks: Tasks,
        score: ScoreFunction | None = None,
        rewards: RewardsFunction | None = None,
        choices: Mapping[str, Sequence[str]] | None = None,
        name: str = "",
        score_range: tuple[float, float] = (0.0, 1.0),
        reward_range: tuple[float, float] | None = None,
        window: float = 0.02,
        timeout: float = 60.0,
        **common: Unpack[TaskOptions],
    ) -> None:
        common.setdefault("max_turns", 16)
        self._solve, self._score, self._rewards, self._choices = solve, score, rewards, dict(choices or {})
        self._window, self._timeout = window, timeout
        self._running = Running()
        _check(solve, roles, score, rewards, self._choices)
        name = name or (getattr(solve, "__name__", "program") if callable(solve) else solve[0])
        self.declared = Facts(
            name=name,
            roles=tuple(roles),
            components=(_PART,),
            score_range=score_range,
            turn_range=reward_range,
            joint_reward=rewards is None,
            silence_is_lowest=False,
            shares_texts=True,
            judges_code=True,
        )
        self.source = TaskSource(name)  # pyright: ignore[reportAttributeAccessIssue]  # of this program
        super().__init__(tasks, **common)

    def tools(self, agent: str) -> tuple[Tool, ...]:
        """Return the tools of the agent's open call."""
        state = self._now.latest.transition.state
        call = dict(state.calls).get(self.role(agent)) if isinstance(state, ProgramState) else None
        return () if call is None else call.tools

    def choices(self, agent: str, history: Sequence[Message] = ()) -> Sequence[str]:
        """Return the texts among which an agent chooses, if they were given."""
        return self._choices.get(self.role(agent), ())

    def initial_state(self, item: TaskItem, seed: int) -> ProgramState:
        """Start the program and return the state at its first calls."""
        return self._next(self._begun(item, seed), ProgramState(item, seed))

    def observations(self, state: ProgramState) -> Mapping[str, Message]:
        """Return the messages of the open calls."""
        return {self._agent(role): message for role, message in state.observed}

    def asks(self, state: ProgramState) -> Collection[str]:
        """Return the agents with an open call."""
        return [self._agent(role) for role, _ in state.calls]

    def describe(self, state: ProgramState) -> Mapping[str, Any]:
        """Return the open calls."""
        return {"calls": {role: [list(m) for m in call.messages] for role, call in state.calls}}

    def transition(self, state: ProgramState, actions: Mapping[str, str], seed: int) -> Transition[ProgramState]:
        """Answer the open calls, and let the program run to its next calls or its end."""
        session = self._running.take(state) or self._replayed(state)
        turn = tuple(Exchange(role, call, actions[self._agent(role)]) for role, call in state.calls)
        last = len(state.turns) + 1 >= self.max_turns
        limit = f"the episode has max_turns = {self.max_turns} turns, which are over; raise max_turns, or call less"
        replies = session.reply({e.role: e.text for e in turn}, last=limit if last else "")
        after = {e.role: conversation_after(e.call, replies[e.role]) for e in turn}
        conversations = {**dict(state.conversations), **after}
        following = replace(state, turns=(*state.turns, turn), conversations=tuple(conversations.items()))
        following = self._next(session, following)
        added = session.take_rewards()
        if session.ending is None:
            return Transition(following, added, reset_history=frozenset(map(self._agent, following.reset)))
        self._note_ignored(session)
        return self._ended(following, session.ending, added)

    # --- inside ---------------------------------------------------------------------------------------------------

    def _agent(self, role: str) -> str:
        return self.possible_agents[self.facts.roles.index(role)]

    def _begun(self, item: TaskItem, seed: int) -> Session:
        row = row_of(item)
        options: dict[str, Any] = {"window": self._window, "timeout": self._timeout}
        kind = ThreadSession if callable(self._solve) else CommandSession
        session = cast("Any", kind)(self._solve, row, self.facts.roles, seed, **options)
        session.start()
        return session

    def _next(self, session: Session, state: ProgramState) -> ProgramState:
        """Return the state at the next calls of the program, or at its end."""
        calls = session.wait()
        before = dict(state.conversations)
        seen = {role: observed(call, before.get(role)) for role, call in calls.items()}
        following = replace(
            state,
            calls=tuple((role, calls[role]) for role in self.facts.roles if role in calls),
            observed=tuple((role, seen[role].message) for role in self.facts.roles if role in calls),
            reset=frozenset(role for role, one in seen.items() if one.reset),
            ending=session.ending is not None,
        )
        self._running.put(following, session)
        return following

    def _replayed(self, state: ProgramState) -> Session:
        """Return a new run of the program that has received the replies of a state.

        Raises:
            ProgramError: It made other calls.
        """
        session = self._begun(state.item, state.seed)
        for number, turn in enumerate((*state.turns, None)):
            calls = session.wait()
            expected = dict(state.calls) if turn is None else {e.role: e.call for e in turn}
            if calls != expected:
                session.close()
                raise ProgramError(
                    f"{self.facts.name} is not deterministic: in a replay of task {state.item.id!r} its calls at turn "
                    f"{number} were {sorted(calls)}, with other messages than before ({sorted(expected)}); seed "
                    "every random generator with roles.seed, or train with a learner that needs no forks (magrpo with "
                    "joint credit)"
                )
            if turn is not None:
                session.reply({e.role: e.text for e in turn})
        session.take_rewards()
        return session

    def _ended(self, state: ProgramState, ending: Ending, added: float) -> Transition[ProgramState]:
        """Return the transition at the end of the program."""
        row, failure = row_of(state.item), ending.failure
        if not failure and not any(state.turns):
            failure = "the program ended without a call of a role, so there is nothing to train"
        value = math.nan
        if not failure:
            given: Any = 0.0 if self._score is None else self._score(row, ending.result)
            if isinstance(given, (bool, int, float, np.generic)):
                value = float(cast("float", given))
            else:
                failure = f"score() returned {given!r:.60}, which is no number, so the episode has no score"
        score = Score(value, {_PART: value}, notes={"program": failure} if failure else {})
        events = (Event("failure", self.possible_agents[0], {"reason": failure}),) if failure else ()
        own: dict[str, float] | None = None
        if self._rewards is not None:
            trace = [
                {"role": e.role, "messages": [m._asdict() for m in e.call.messages], "reply": e.text}
                for turn in state.turns
                for e in turn
            ]
            by_role = dict.fromkeys(self.facts.roles, math.nan) if failure else self._rewards(row, ending.result, trace)
            own = {self._agent(role): added + float(by_role[role]) for role in self.facts.roles}
        return Transition(state, added + value, score, terminated=True, rewards=own, events=events)

    def _note_ignored(self, session: Session) -> None:
        if session.ignored:
            _note_once(self.facts.name, tuple(sorted(session.ignored)))


@functools.cache
def _note_once(name: str, ignored: tuple[str, ...]) -> None:
    _log.warning(
        "%s sends %s; the sampling options of the run are used instead (temperature, top_p, max_new_tokens, seed)",
        name,
        ", ".join(ignored),
    )


def row_of(item: TaskItem) -> dict[str, Any]:
    """Return a task as the dictionary that programs and scores receive."""
    reference = {"reference": list(item.reference)} if item.reference else {}
    return {**item.fields, **reference, "id": item.id, "prompt": item.prompt}


def _check(
    solve: Solve | Sequence[str],
    roles: Sequence[str],
    score: ScoreFunction | None,
    rewards: RewardsFunction | None,
    choices: Mapping[str, Sequence[str]],
) -> None:
    if not callable(solve) and (isinstance(solve, str) or not solve):
        raise ValueError(f"the program is {solve!r:.60}; give a function solve(task, roles), or a command as a list")
    if isinstance(roles, str) or not roles or len(set(roles)) < len(roles):
        raise ValueError(f"roles is {roles!r:.60}; give a list of different names, such as ['planner', 'coder']")
    for role in roles:
        if not role.replace("_", "").replace("-", "").isalnum() or not role.isascii():
            raise ValueError(f"the role {role!r} has other characters than letters, digits, '_' and '-'; rename it")
    if score is None and rewards is None:
        raise ValueError("score is missing; give score(task, result), rewards(task, result, trace), or both")
    if unknown := sorted(set(choices) - set(roles)):
        raise ValueError(f"choices has the role {unknown[0]!r}, which does not exist; {nearest(unknown[0], roles)}")


from_program = ProgramTask
"""The class under the name of its purpose: `env = from_program(solve, ...)`."""
