"""The texts of the grammar "free", and how they are read.

| who | lines | calls |
|---|---|---|
| main | `ASK name: subtask` (several at once), `ANSWER: text`, `STOP` | `ask(to, subtask)`, `answer(text)`, `stop()` |
| sub-agent | `SEARCH: words`, `READ: number`, `REPORT: text` | `search(query)`, `read(number)`, `report(text)` |

Calls have the form of many chat templates: `<tool_call>{"name": "search", "arguments": {"query": "..."}}</tool_call>`.
Other text is for thinking and is not read. The first line or call decides what is done in this turn; where it is an
ASK of main, all further ones count too. A text without any is invalid.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

LEADS = {"ask": ("to", "subtask"), "answer": ("text",), "stop": ()}  # action -> its arguments, the main ones last
FINDS = {"search": ("query",), "read": ("number",), "report": ("text",)}
ALONE = {"search": ("query",), "read": ("number",), "answer": ("text",), "stop": ()}

_CALL = re.compile(r"<tool_call>(.*?)(?:</tool_call>|\Z)", re.DOTALL)
_LINE = re.compile(
    r"^[ \t]*(ASK|ANSWER|STOP|SEARCH|READ|REPORT)\b[ \t]*([^:\n]{0,80}?)[ \t]*(?::[ \t]*(.*))?$", re.MULTILINE
)


class Action(NamedTuple):
    """What an agent does."""

    name: str  # "ask", "answer", "stop", "search", "read" or "report"
    text: str = ""  # what is asked, looked for or said
    to: str = ""  # who is asked; "" where nobody is named


def read(text: str, allowed: Mapping[str, tuple[str, ...]]) -> tuple[Action, ...]:
    """The action of a text, or several that ask; () where it is none of the `allowed` ones."""
    acts = list(_calls(text, allowed)) if "<tool_call>" in text else list(_lines(text, allowed))
    if not acts:
        return ()
    if acts[0].name != "ask":
        return (acts[0],)
    return tuple(action for action in acts if action.name == "ask")


def _lines(text: str, allowed: Mapping[str, tuple[str, ...]]) -> Iterator[Action]:
    for match in _LINE.finditer(text):
        name, to, said = match[1].lower(), match[2], (match[3] or "").strip()
        if name not in allowed or (to and name != "ask"):
            continue
        if said or name == "stop":
            yield Action(name, said, to)


def _calls(text: str, allowed: Mapping[str, tuple[str, ...]]) -> Iterator[Action]:
    for match in _CALL.finditer(text):
        try:
            call: Any = json.loads(match[1])
            given: Any = call.get("arguments", {})
            arguments: Any = json.loads(given) if isinstance(given, str) else given
            values = {str(key): str(value).strip() for key, value in arguments.items()}
            name: Any = call.get("name")
        except (ValueError, RecursionError, AttributeError):  # no object, or one that is too deep
            continue
        if not isinstance(name, str) or name not in allowed:
            continue
        said = values.get(allowed[name][-1], "") if allowed[name] else ""
        if said or name == "stop":
            yield Action(name, said, values.get("to", ""))


def spoken(action: Action) -> str:
    """The line of an action."""
    return action.name.upper() + (f" {action.to}" if action.to else "") + (f": {action.text}" if action.text else "")


def cut(text: str, words: int, characters: int) -> str:
    """A text cut to so many words and characters; a cut is noted at its end."""
    kept = " ".join(text[: 4 * characters].split()[:words])[:characters]
    if len(kept) == len(" ".join(text[: 4 * characters].split())) and len(text) <= 4 * characters:
        return text.strip()
    return f"{kept} [cut after {words} words]"
