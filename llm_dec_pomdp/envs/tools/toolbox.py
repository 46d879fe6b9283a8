"""The tools of a team: state, limits and prices, and one answer for each call.

A `Toolbox` has no state. A `ToolState` is immutable and part of the hidden state of a task:

    state, answers = toolbox.answer(state, agent, calls)

Wrong names, missing or mistyped arguments, exceptions and time-outs never raise; they are answers to the agent, and
events. The first exception at each place of a user's tool is logged as a warning, except for ValueError. An agent
observes the results of several calls as one message with a block for each, as in chat templates:

    <tool_response>
    12
    </tool_response>
"""

from __future__ import annotations

import json
import logging
import math
import queue
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar, cast

from ...registries import nearest
from ...sandbox import SandboxError
from ...types import LEFT_OUT, Event, Message, Tool
from ...user_code import is_of_user, summary, where
from ..task import mutable_part
from .calls import Call, read_calls
from .function import ArgumentsError, Function, Kit, LateError, check_unique

T = TypeVar("T")
AT_ONCE = 16  # maximum number of calls of a text that are run
_NOTICE = (
    'You may call tools before you answer. A call is <tool_call>{"name": ..., "arguments": {...}}</tool_call>, or '
    "name(argument=value) alone in a line. There are:"
)
_log = logging.getLogger(__name__)
_reported: set[str] = set()  # places in tools for which a warning was logged
_OPEN, _CLOSE = "<tool_response>", "</tool_response>"


@dataclass(frozen=True)
class Limits:
    """Limits and price of a tool.

    Attributes:
        calls: Maximum number of calls by each agent in an episode.
        characters: Maximum length of an answer; a longer one is cut, with a note.
        seconds: Wall time of a call, unless its kit is `bounded`. A function that takes longer continues in a thread
            whose result is ignored. 0 for no limit and no thread.
        price: Price of a call, in units of the reward.
    """

    calls: int = 1000
    characters: int = 2000
    seconds: float = 10.0
    price: float = 0.0

    def __post_init__(self) -> None:
        for name, least in (("calls", 0), ("characters", 1), ("seconds", 0), ("price", 0)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not least <= value < math.inf:
                raise ValueError(f"{name} is {value!r}; give a finite number of at least {least}")


class ToolState(NamedTuple):
    """The state of all tools in an episode.

    Attributes:
        states: Entries (index of the kit, agent, state) for each state that is not the initial one; the agent is ""
            for a shared state.
        calls: Entries (agent, tool, number of calls).
    """

    states: tuple[tuple[int, str, Any], ...] = ()
    calls: tuple[tuple[str, str, int], ...] = ()


class Answered(NamedTuple):
    """A call and its answer."""

    call: Call
    answer: str
    valid: bool  # the call ran and returned
    price: float
    late: bool = False  # the call exceeded its time limit


class Toolbox:
    """The tools of a team, with their limits and the agents that may call them.

    Args:
        kits: The tools.
        limits: Limits by name of the tool; `Limits()` for tools without an entry.
        users: Agents that may call a kit, by its name; all agents for kits without an entry.

    Raises:
        ValueError: Two tools or kits have the same name, or limits or users name an unknown one.
    """

    def __init__(
        self,
        kits: Sequence[Kit],
        limits: Mapping[str, Limits] | None = None,
        users: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        check_unique([kit.name for kit in kits])
        check_unique([f.tool.name for kit in kits for f in kit.functions])
        self.kits, self.users, self.limits = tuple(kits), dict(users or {}), dict(limits or {})
        self._places = {f.tool.name: (place, f) for place, kit in enumerate(kits) for f in kit.functions}
        for what, names, known in (
            ("limits", self.limits, self._places),
            ("users", self.users, [kit.name for kit in kits]),
        ):
            if unknown := sorted(set(names) - set(known)):
                raise ValueError(f"{what} names {unknown[0]!r}, which does not exist; {nearest(unknown[0], known)}")

    def tools(self, agent: str) -> tuple[Tool, ...]:
        """Return the tools that an agent may call."""
        return tuple(f.tool for kit in self.kits if self._has(agent, kit) for f in kit.functions)

    def _has(self, agent: str, kit: Kit) -> bool:
        return kit.name not in self.users or agent in self.users[kit.name]

    @property
    def dearest(self) -> float:
        """Return the highest price of the calls of one text."""
        return AT_ONCE * max((limits.price for limits in self.limits.values()), default=0.0)

    # --- calls --------------------------------------------------------------------------------------------------------

    def calls(self, agent: str, text: str) -> tuple[Call, ...]:
        """Return the calls of a text; see `calls.read_calls`."""
        return read_calls(text, [tool.name for tool in self.tools(agent)])

    def answer(self, state: ToolState, agent: str, calls: Sequence[Call]) -> tuple[ToolState, tuple[Answered, ...]]:
        """Run calls in order; after a call that exceeds its time limit, the remaining calls are not run.

        Args:
            state: State of the tools.
            agent: Calling agent.
            calls: Calls of one text, see `calls`.

        Returns:
            The state after the calls, and an answer for each call.
        """
        answers: list[Answered] = []
        for place, call in enumerate(calls):
            if place >= AT_ONCE:
                answers.append(Answered(call, f"not run: a text may have {AT_ONCE} calls", False, 0.0))
                continue
            if any(answered.late for answered in answers):
                answers.append(Answered(call, "not run: an earlier call of the text took too long", False, 0.0))
                continue
            state, answered = self._run(state, agent, call)
            answers.append(answered)
        return state, tuple(answers)

    def _run(self, state: ToolState, agent: str, call: Call) -> tuple[ToolState, Answered]:
        known = [tool.name for tool in self.tools(agent)]
        if call.name == LEFT_OUT:
            return state, Answered(call, "no result", False, 0.0)
        if call.problem:
            return state, Answered(call, f"the call cannot be read: {call.problem}", False, 0.0)
        if call.name not in known:
            return state, Answered(call, f"there is no tool {call.name!r:.60}; {nearest(call.name, known)}", False, 0.0)
        limits = self.limits.get(call.name, Limits())
        count = next((n for a, tool, n in state.calls if (a, tool) == (agent, call.name)), 0)
        if count >= limits.calls:
            return state, Answered(call, f"{call.name} may be called {limits.calls} times, and was", False, 0.0)
        place, function = self._places[call.name]
        owner = agent if self.kits[place].private else ""
        before = self.state_of(state, self.kits[place], agent)
        seconds = 0.0 if self.kits[place].bounded else limits.seconds
        late = False
        try:
            after, answer, valid = _called(function, before, call, seconds)
        except LateError as error:
            after, answer, valid, late = before, str(error), False, True
        others = tuple(entry for entry in state.calls if entry[:2] != (agent, call.name))
        state = state._replace(calls=(*others, (agent, call.name, count + 1)))
        if after is not before:
            kept = tuple(entry for entry in state.states if entry[:2] != (place, owner))
            state = state._replace(states=(*kept, (place, owner, after)))
        return state, Answered(call, _cut(answer, limits.characters), valid, limits.price, late)

    def check_copyable(self, state: ToolState) -> None:
        """Raise ValueError if a called kit has a state that cannot be copied (`Kit.copies`)."""
        for place, _, _ in state.states:
            if not (kit := self.kits[place]).copies:
                raise ValueError(
                    f"tools of {kit.name!r} ({kit.functions[0].tool.name}, ...) were called in this episode, and their "
                    "state in another program cannot be copied; use tools without a state (for an MCP server: "
                    "stateless=True) for forks, snapshots and served environments"
                )

    def state_of(self, state: ToolState, kit: Kit, agent: str) -> Any:
        """Return the state of a kit for an agent."""
        key = self.kits.index(kit), agent if kit.private else ""
        return next((after for *place, after in state.states if tuple(place) == key), kit.initial)

    def notice(self, agent: str) -> str:
        """Return the description of the agent's tools and of the form of calls; "" if it has no tools."""
        lines = [f"- {tool.name}({', '.join(_shown(tool))}): {tool.description}" for tool in self.tools(agent)]
        return "\n".join([_NOTICE, *lines]) if lines else ""

    # --- results ------------------------------------------------------------------------------------------------------

    def message(self, answers: Sequence[Answered]) -> Message:
        """Return the message with the answers, as the agent observes it."""
        texts = [answered.answer for answered in answers]
        text = texts[0] if len(texts) == 1 else "\n".join(f"{_OPEN}\n{_escaped(text)}\n{_CLOSE}" for text in texts)
        return Message("tool", text or "(nothing)", answers[0].call.name or "call")

    def events(self, agent: str, answers: Sequence[Answered]) -> Iterator[Event]:
        """Yield two events for each call, with the index of the call in the text."""
        for place, (call, answer, valid, *_) in enumerate(answers):
            about = {"tool": call.name, "id": str(place)}
            arguments = json.dumps(dict(call.arguments) if not call.places else [*call.places, dict(call.arguments)])
            yield Event("call", agent, {**about, "input": arguments})
            yield Event("result", agent, {**about, "output": answer, "valid": str(valid).lower()})


def responses(text: str) -> list[str]:
    """Return the answers in a message; the text itself if it has only one."""
    if not text.startswith(f"{_OPEN}\n") or not text.endswith(f"\n{_CLOSE}"):
        return [text]
    return text[len(_OPEN) + 1 : -len(_CLOSE) - 1].split(f"\n{_CLOSE}\n{_OPEN}\n")


def _escaped(answer: str) -> str:
    return answer.replace(_CLOSE, "</tool-response>").replace(_OPEN, "<tool-response>")


def _shown(tool: Tool) -> Iterator[str]:
    """Yield each argument with its type; "?" marks optional ones."""
    schema = tool.json_schema
    for name, about in schema.get("properties", {}).items():
        yield f"{name}{'' if name in schema.get('required', ()) else '?'}: {about.get('type', 'any')}"


def _cut(answer: str, characters: int) -> str:
    left = len(answer) - characters
    return answer if left <= 0 else f"{answer[:characters]}\n[cut: {left} more characters]"


# --- one call ---------------------------------------------------------------------------------------------------------


def _called(function: Function, state: Any, call: Call, seconds: float) -> tuple[Any, str, bool]:
    """Call a function of the user; return the state, the answer, and whether the call is valid.

    Raises:
        LateError: The call exceeded its time limit.
    """
    name = call.name
    try:
        named = _named(function.tool, call)
        after, answer = _within(seconds, lambda: function.run(state, function.accepted(named)), name)
    except ArgumentsError as error:
        return state, str(error), False
    except TimeoutError:
        raise LateError(f"{name} took longer than {seconds:g} seconds") from None
    except LateError as error:
        raise LateError(f"{name}: {error}") from None
    except SandboxError:  # a problem of this machine, not of the call
        raise
    except ValueError as error:  # wrong values of arguments
        return state, f"{name}: {error}", False
    except Exception as error:
        if is_of_user(error) and (place := where(error)) not in _reported:
            _reported.add(place)
            _log.warning("tool %s raised %s; the agent receives this as the answer", name, summary(error))
        return state, f"{name} failed: {type(error).__name__}: {error}", False
    if problem := "" if after is state else mutable_part(after):
        return state, f"{name} failed: its new state can change ({problem})", False
    if isinstance(answer, str):
        return after, answer, True
    try:
        return after, json.dumps(answer, ensure_ascii=False), True
    except (TypeError, ValueError, RecursionError):
        return state, f"{name} failed: it returned a {type(answer).__name__}, which is no text and no JSON", False


def _named(tool: Tool, call: Call) -> Mapping[str, Any]:
    """Return the arguments by name; positional arguments get the names of the tool in order."""
    if not call.places:
        return call.arguments
    names = list(tool.json_schema.get("properties", {}))
    if len(call.places) > len(names):
        raise ArgumentsError(f"{tool.name} takes {len(names)} arguments, and {len(call.places)} are given")
    placed = dict(zip(names, call.places, strict=False))
    if twice := sorted(placed.keys() & call.arguments.keys()):
        raise ArgumentsError(f"the argument {twice[0]!r} of {tool.name} is given twice")
    return {**placed, **call.arguments}


def _within(seconds: float, run: Callable[[], T], name: str) -> T:
    """Return the result of a function; raise TimeoutError if it takes longer than `seconds`."""
    if not seconds:
        return run()
    results: queue.SimpleQueue[tuple[T | None, Exception | None]] = queue.SimpleQueue()

    def work() -> None:
        try:
            results.put((run(), None))
        except Exception as error:
            results.put((None, error))

    threading.Thread(target=work, daemon=True, name=f"tool {name}").start()
    try:
        result, problem = results.get(timeout=seconds)
    except queue.Empty:
        raise TimeoutError from None
    if problem is not None:
        raise problem
    return cast("T", result)
