"""Conversion of tool calls between text and the objects of OpenAI-compatible servers.

In a history a call is text, `<tool_call>{"name": ..., "arguments": {...}}</tool_call>`, as in many chat templates. A
server sends and receives calls as objects with ids, and needs one tool message for each call.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

from ..types import Message
from .base import chat

_CALL = re.compile(r"<tool_call>(.*?)</tool_call>", re.DOTALL)
_WITH_THE_FIRST = "(given with the first call)"
_OPEN, _CLOSE = "<tool_response>", "</tool_response>"


def content_and_calls(message: Mapping[str, Any], *, truncated: bool = False) -> tuple[str, list[str]]:
    """Return the content of a server's message, and each of its calls as text, without reasoning.

    The content is empty for a refusal and for a message without content.

    Args:
        message: A message of an OpenAI-compatible server.
        truncated: Whether the token limit ended the message.

    Raises:
        TypeError: The content is neither text, nor a list of parts, nor null.
    """
    calls = message.get("tool_calls")
    if not isinstance(calls, list):  # older servers send a single call
        calls = [{"function": message["function_call"]}] if message.get("function_call") else []
    written = [_call_as_text(call, truncated) for call in cast("list[Any]", calls)]
    return _content_of(message.get("content")), written


def _content_of(content: Any) -> str:
    """Return the text of a content: null, a text, or a list of parts; parts that are not text are left out."""
    if content is None or isinstance(content, str):
        return content or ""
    if not isinstance(content, list):
        raise TypeError(f"the content of its answer is a {type(content).__name__}, not text")
    parts: list[str] = []
    for part in cast("list[Any]", content):
        match part:
            case str(text) | {"type": "text" | "output_text", "text": str(text)}:
                parts.append(text)
            case _:  # thoughts, a refusal, a picture
                pass
    return "".join(parts)


def _call_as_text(call: Any, truncated: bool) -> str:
    """Return a call as text; an invalid call is kept as it was sent, so that the environment reports the error."""
    function: Any = cast("dict[str, Any]", call).get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict):
        return _tagged(call)
    function = cast("dict[str, Any]", function)
    name, arguments = function.get("name"), function.get("arguments")
    if arguments is None or isinstance(arguments, str):
        sent = arguments or ("" if truncated else "{}")
        try:
            arguments = json.loads(sent)
        except (ValueError, RecursionError):
            return f'<tool_call>{{"name": {json.dumps(name)}, "arguments": {sent}</tool_call>'
    return _tagged({"name": name, "arguments": arguments})


def _tagged(call: Any) -> str:
    """Return a call in tags; "<" is escaped, so that a tag in its arguments does not end it."""
    inside = json.dumps(call).replace("<", "\\u003c")
    return f"<tool_call>{inside}</tool_call>"


def messages_of(history: Sequence[Message]) -> list[dict[str, Any]]:
    """Return a history as messages for a server: calls as objects, and results as tool messages.

    If the agent called a tool in another form, the result is a user message that begins with the name of the tool.
    """
    messages: list[dict[str, Any]] = []
    plain: list[Message] = []  # messages since the last call
    waiting: list[str] = []  # ids of calls without an answer so far
    for message in history:
        calls = _calls(message) if message.role == "action" else []
        if not calls and not (message.role == "tool" and waiting):
            plain.append(message)
            continue
        messages += chat(plain, tools=False)
        plain = []
        if calls:
            waiting = [f"call_{len(messages)}_{number}" for number in range(len(calls))]
            content = _CALL.sub("", message.text).strip() or None
            written = [{"id": i, "type": "function", "function": f} for i, f in zip(waiting, calls, strict=True)]
            messages.append({"role": "assistant", "content": content, "tool_calls": written})
        else:
            contents = answers_of(message.text, len(waiting))
            messages += [
                {"role": "tool", "tool_call_id": i, "content": t} for i, t in zip(waiting, contents, strict=True)
            ]
            waiting = []
    return messages + chat(plain, tools=False)


def answers_of(text: str, calls: int) -> list[str]:
    """Return the result of each of several calls.

    A message has one block per call (`envs.tools.toolbox`); otherwise its whole text is the result of the first call.
    """
    blocks = text.removeprefix(f"{_OPEN}\n").removesuffix(f"\n{_CLOSE}").split(f"\n{_CLOSE}\n{_OPEN}\n")
    return blocks if len(blocks) == calls > 1 else [text, *[_WITH_THE_FIRST] * (calls - 1)]


def _calls(message: Message) -> list[dict[str, str]]:
    """Return the calls in a text as a server writes them; [] if one of them is invalid."""
    calls: list[dict[str, str]] = []
    for match in _CALL.finditer(message.text):
        try:
            call: Any = json.loads(match[1])
            calls.append({"name": str(call["name"]), "arguments": json.dumps(call["arguments"])})
        except (ValueError, RecursionError, LookupError, TypeError):
            return []
    return calls
