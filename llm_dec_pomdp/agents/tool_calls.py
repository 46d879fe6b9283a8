"""Tool calls as OpenAI-compatible servers write them, and as text.

In a history a call is text, `<tool_call>{"name": ..., "arguments": {...}}</tool_call>`, as in many chat templates. A
server sends and takes calls as objects with ids, and wants a message from the tool for each of them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from ..types import Message
from .base import chat

_CALL = re.compile(r"<tool_call>(.*?)</tool_call>", re.DOTALL)
_WITH_THE_FIRST = "(given with the first call)"
_OPEN, _CLOSE = "<tool_response>", "</tool_response>"


def text_with_calls(message: Any) -> Any:
    """The content of a server's message, followed by its calls as text.

    Raises:
        LookupError, TypeError, AttributeError, ValueError: The calls have another form.
    """
    calls = message.get("tool_calls")
    if not calls:
        return message["content"]
    parts: list[str] = [message.get("content") or ""]
    for call in calls:
        function = call["function"]
        arguments = json.loads(function["arguments"] or "{}")
        parts.append(f"<tool_call>{json.dumps({'name': function['name'], 'arguments': arguments})}</tool_call>")
    return "\n".join(filter(None, parts))


def messages_of(history: Sequence[Message]) -> list[dict[str, Any]]:
    """A history as messages for a server: calls as objects, and results of tools as answers to them.

    Where the agent called a tool in another form, the result is a message of the user, below the name of the tool.
    """
    messages: list[dict[str, Any]] = []
    plain: list[Message] = []  # messages since the last call
    waiting: list[str] = []  # ids of calls without an answer so far
    for message in history:
        calls = _calls(message) if message.role == "said" else []
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
    """What a message says to each of several calls: a block for each (`envs.tools.toolbox`), else all to the first."""
    blocks = text.removeprefix(f"{_OPEN}\n").removesuffix(f"\n{_CLOSE}").split(f"\n{_CLOSE}\n{_OPEN}\n")
    return blocks if len(blocks) == calls > 1 else [text, *[_WITH_THE_FIRST] * (calls - 1)]


def _calls(message: Message) -> list[dict[str, str]]:
    """The calls in a text, as a server writes them; [] where one cannot be read."""
    calls: list[dict[str, str]] = []
    for match in _CALL.finditer(message.text):
        try:
            call: Any = json.loads(match[1])
            calls.append({"name": str(call["name"]), "arguments": json.dumps(call["arguments"])})
        except (ValueError, RecursionError, LookupError, TypeError):
            return []
    return calls
