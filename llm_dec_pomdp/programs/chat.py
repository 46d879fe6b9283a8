"""Chat-completions requests of a program, and the responses to them, in the format of OpenAI's API.

A request becomes a `Call`. Its messages are compared with the last conversation of the agent. If they continue it, the
agent observes only the new messages. Otherwise the agent's history is reset, and it observes all messages.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

from ..agents.tool_calls import content_and_calls
from ..envs.tools.calls import read_calls
from ..registries import nearest
from ..types import Message, Tool

IGNORED = (
    *("temperature", "top_p", "top_k", "max_tokens", "max_completion_tokens", "seed"),
    *("presence_penalty", "frequency_penalty", "reasoning_effort"),
)
"""Sampling options of a request that the sampling of the run replaces."""
_NEUTRAL: Mapping[str, Sequence[Any]] = {
    "logprobs": (False,),
    "top_logprobs": (0,),
    "logit_bias": ({},),
    "response_format": ({"type": "text"},),
    "tool_choice": ("auto",),
    "modalities": (["text"],),
    "audio": (),
    "prediction": (),
    "web_search_options": (),
    "functions": ([],),
    "function_call": ("auto",),
}
"""Options that change the reply, with the values that have no effect. Other values raise an error."""
_ROLES = ("system", "developer", "user", "assistant", "tool")
_MOST_SAMPLES = 16
_MOST_STOPS = 4
_CALL = re.compile(r"<tool_call>.*?</tool_call>", re.DOTALL)


class RequestError(ValueError):
    """A request that cannot be answered.

    Attributes:
        status: The HTTP status.
        param: The field of the request; None if there is no such field.
        code: Error code for programs, such as "unknown_role".
    """

    def __init__(
        self, message: str, *, param: str | None = None, code: str = "invalid_value", status: int = 400
    ) -> None:
        super().__init__(message)
        self.status, self.param, self.code = status, param, code

    @property
    def body(self) -> dict[str, Any]:
        """Return the error as OpenAI's API writes it."""
        kind = "authentication_error" if self.status == 401 else "invalid_request_error"
        return {"error": {"message": str(self), "type": kind, "param": self.param, "code": self.code}}


class ChatMessage(NamedTuple):
    """A message of a request: its role, its text with tool calls in tags, and the tool that wrote it."""

    role: str
    text: str
    name: str = ""


@dataclass(frozen=True, slots=True)
class Call:
    """A chat-completions request.

    Attributes:
        messages: The conversation.
        tools: The tools that the agent may call.
        stop: Strings that end the text that the program receives.
        samples: The number of completions (`n`).
    """

    messages: tuple[ChatMessage, ...]
    tools: tuple[Tool, ...] = ()
    stop: tuple[str, ...] = ()
    samples: int = 1


class Observed(NamedTuple):
    """The next observation of an agent, and whether its history is reset before it."""

    message: Message
    reset: bool


# --- requests ---------------------------------------------------------------------------------------------------------


def check_role(role: str, known: Collection[str]) -> None:
    """Raise RequestError for a role that does not exist."""
    if role not in known:
        raise RequestError(
            f"there is no role {role!r:.60}; {nearest(role, known)}", param="model", code="model_not_found", status=404
        )


def read_call(body: Mapping[str, Any]) -> Call:
    """Return the call of a request body.

    Raises:
        RequestError: A field has another type than in OpenAI's API, the messages have no message of a user, a tool has
            no schema, or an option cannot be honoured.
    """
    for name, allowed in _NEUTRAL.items():
        if (value := body.get(name)) is not None and value not in allowed:
            raise RequestError(
                f"{name} is {value!r:.60}, and the policy of the role cannot honour it; leave it out",
                param=name,
                code="unsupported_parameter",
            )
    samples = 1 if body.get("n") is None else body["n"]
    if type(samples) is not int or not 1 <= samples <= _MOST_SAMPLES:
        raise RequestError(f"n is {samples!r:.40}; it is an integer from 1 to {_MOST_SAMPLES}", param="n")
    stop: Any = body.get("stop") or []
    stops: Any = [stop] if isinstance(stop, str) else stop
    if not isinstance(stops, list) or not all(isinstance(s, str) and s for s in cast("list[Any]", stops)):
        raise RequestError(f"stop is {stop!r:.60}; it is a text or a list of texts", param="stop")
    if len(cast("list[str]", stops)) > _MOST_STOPS:
        raise RequestError(f"stop has {len(cast('list[str]', stops))} texts; give at most {_MOST_STOPS}", param="stop")
    return Call(_messages(body.get("messages")), _tools(body.get("tools")), tuple(cast("list[str]", stops)), samples)


def _messages(given: Any) -> tuple[ChatMessage, ...]:
    if not isinstance(given, list) or not given:
        raise RequestError("messages is missing or empty; give a list of messages", param="messages")
    messages: list[ChatMessage] = []
    names: dict[str, str] = {}  # of called tools, by the id of the call
    for number, entry in enumerate(cast("list[Any]", given)):
        place = f"messages[{number}]"
        message = cast("dict[str, Any]", entry if isinstance(entry, dict) else {})
        role = message.get("role")
        if role not in _ROLES:
            raise RequestError(f"{place}.role is {role!r:.40}; known: {', '.join(_ROLES)}", param=f"{place}.role")
        try:
            content, calls = content_and_calls(message)
        except TypeError:
            raise RequestError(
                f"{place}.content is a {type(message['content']).__name__}; give a text or a list of parts",
                param=f"{place}.content",
            ) from None
        names |= {str(i): name for i, name in _called(message)}
        name = names.get(str(message.get("tool_call_id")), str(message.get("name") or "tool")) if role == "tool" else ""
        text = "\n".join(filter(None, [content.strip(), *calls]))
        messages.append(ChatMessage("system" if role == "developer" else role, text, name))
    if not any(message.role == "user" for message in messages):
        raise RequestError("messages has no message of the role 'user'; add one", param="messages")
    if messages[-1].role == "assistant":
        raise RequestError("messages ends with a message of the assistant; end with a user or tool", param="messages")
    return tuple(messages)


def _called(message: Any) -> Iterator[tuple[Any, str]]:
    calls = message.get("tool_calls")
    for call in cast("list[Any]", calls) if isinstance(calls, list) else []:
        if isinstance(call, dict) and isinstance(function := cast("dict[str, Any]", call).get("function"), dict):
            yield cast("dict[str, Any]", call).get("id"), str(cast("dict[str, Any]", function).get("name"))


def _tools(given: Any) -> tuple[Tool, ...]:
    if given is None:
        return ()
    tools: list[Tool] = []
    for number, tool in enumerate(cast("list[Any]", given) if isinstance(given, list) else [given]):
        named: Any = cast("dict[str, Any]", tool).get("function") if isinstance(tool, dict) else None
        function = cast("dict[str, Any]", named if isinstance(named, dict) else {})
        name = function.get("name")
        if not isinstance(name, str) or not name:
            raise RequestError(f"tools[{number}] has no function with a name", param=f"tools[{number}]")
        schema = function.get("parameters")
        if not isinstance(schema, dict):
            raise RequestError(
                f"tools[{number}], {name!r}, has no schema; give function.parameters, "
                '{"type": "object", "properties": {}} for a tool without arguments',
                param=f"tools[{number}].function.parameters",
            )
        tools.append(Tool(name, str(function.get("description") or ""), schema=json.dumps(schema)))
    return tuple(tools)


# --- observations -----------------------------------------------------------------------------------------------------


def observed(call: Call, before: Sequence[ChatMessage] | None) -> Observed:
    """Return the observation of a call.

    Args:
        call: The call.
        before: The last conversation of the agent, with its reply; None if it has none.
    """
    known = 0 if before is None else len(before)
    continues = before is not None and known < len(call.messages) and call.messages[:known] == tuple(before)
    new = call.messages[known:] if continues else call.messages
    return Observed(_as_one(new), before is not None and not continues)


def _as_one(messages: Sequence[ChatMessage]) -> Message:
    """Return messages as one message: joined if they have the same side, else as a transcript."""
    roles = {message.role for message in messages}
    if roles <= {"system", "user"}:
        return Message("observation", "\n\n".join(message.text for message in messages))
    if roles == {"tool"}:
        if len(messages) == 1:
            return Message("tool", messages[0].text, messages[0].name)
        blocks = "\n".join(f"<tool_response>\n{message.text}\n</tool_response>" for message in messages)
        return Message("tool", blocks, ", ".join(dict.fromkeys(message.name for message in messages)))
    lines = [f"{message.name or message.role}: {message.text}" for message in messages]
    return Message("observation", "\n\n".join(lines))


# --- responses --------------------------------------------------------------------------------------------------------


def reply_message(call: Call, text: str, number: int = 0) -> dict[str, Any]:
    """Return an agent's text as a message for the program: up to a stop string, with tool calls as objects.

    Args:
        call: The call that it answers.
        text: The action of the agent.
        number: Number of the reply within the episode, from which ids of tool calls are made.
    """
    if call.stop:
        text = re.split("|".join(map(re.escape, call.stop)), text, maxsplit=1)[0]
    calls = read_calls(text, [tool.name for tool in call.tools]) if call.tools else ()
    if not calls or any(c.problem for c in calls):
        return {"role": "assistant", "content": text, "refusal": None}
    written = [
        {
            "id": f"call_{number}_{i}",
            "type": "function",
            "function": {"name": c.name, "arguments": json.dumps(dict(c.arguments))},
        }
        for i, c in enumerate(calls)
    ]
    around = _CALL.sub("", text).strip() if "<tool_call>" in text else ""
    return {"role": "assistant", "content": around or None, "refusal": None, "tool_calls": written}


def conversation_after(call: Call, reply: Mapping[str, Any]) -> tuple[ChatMessage, ...]:
    """Return the conversation of a call with its reply, as a later request repeats it."""
    content, calls = content_and_calls(reply)
    text = "\n".join(filter(None, [content.strip(), *calls]))
    return (*call.messages, ChatMessage("assistant", text))


def response(role: str, name: str, messages: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the body of a response with one choice for each message; `name` is its id."""
    choices = [
        {
            "index": index,
            "message": dict(message),
            "finish_reason": "tool_calls" if "tool_calls" in message else "stop",
            "logprobs": None,
        }
        for index, message in enumerate(messages)
    ]
    return {"id": name, "object": "chat.completion", "created": 0, "model": role, "choices": choices}


def chunks(body: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of a streamed response (server-sent events): each choice in one piece."""
    head = {**body, "object": "chat.completion.chunk"}
    for choice in body["choices"]:
        delta = {k: v for k, v in choice["message"].items() if v is not None}
        if "tool_calls" in delta:
            delta["tool_calls"] = [{"index": i, **call} for i, call in enumerate(delta["tool_calls"])]
        for part, reason in ((delta, None), ({}, choice["finish_reason"])):
            piece = {"index": choice["index"], "delta": part, "finish_reason": reason}
            yield f"data: {json.dumps({**head, 'choices': [piece]})}\n\n"
    yield "data: [DONE]\n\n"


def ignored_options(body: Mapping[str, Any]) -> list[str]:
    """Return the sampling options of a request, which the sampling of the run replaces."""
    return [name for name in IGNORED if body.get(name) is not None]
