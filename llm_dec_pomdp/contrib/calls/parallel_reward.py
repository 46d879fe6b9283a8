"""The published reward of bfcl-parallel-v0: how texts are parsed as calls, and how the calls of a team are scored.

Parsing. If a text has fenced blocks, only these are parsed. As JSON, a call is an object with `name` or `function` and
`arguments` or `parameters`, or an object such as `{"f": {"a": 1}}`. JSON may also be a list of calls, and may stand in
other text. As Python, calls stand in lines, in a list, or with commas between them. If neither can be parsed, the first
call of a known function in the text counts.

Values are compared without case, outer quotes and repeated spaces, and numbers to 1e-6. A list of the answer key is a
list of right values, at every depth. So an argument that is a list is never right, but one of its elements is.

Source: `native_parallel` of github.com/OpenMLRL/LLM_Collab_BFCL-v4, reimplemented here; results are equal to 1e-6.
"""

from __future__ import annotations

import ast
import contextlib
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, cast

from llm_dec_pomdp.envs import parsing
from llm_dec_pomdp.types import Score

WEIGHTS: Mapping[str, float] = {
    "parse": 0.05,
    "names": 0.25,
    "arguments": 0.35,
    "count": 0.10,
    "balance": 0.15,
    "exact": 0.20,
    "overlap": -0.20,
    "lazy": -0.15,
    "extra": -0.05,
    "duplicate": -0.05,
}
LOWEST, HIGHEST = -0.4, 1.1  # the published formula clamps at 1.2, which the parts never reach
LONGEST = 10_000  # maximum length of a text, in characters; the time of parsing may grow quadratically
_NO_ARGUMENTS = 0.7  # score of a call with arguments if the right call has none
_FENCED = re.compile(r"```(?:json|python|text)?\s*+(.*?)```", re.DOTALL | re.IGNORECASE)
_CONSTANTS = {"true": "True", "false": "False", "null": "None"}
_UNREADABLE = (ValueError, TypeError, SyntaxError, RecursionError, MemoryError)


class Asked(NamedTuple):
    """A parsed call."""

    name: str
    arguments: Mapping[str, Any]
    key: Any  # equal for calls that are compared as equal


def score(texts: Sequence[str], functions: Sequence[Mapping[str, Any]], right: Sequence[Mapping[str, Any]]) -> Score:
    """Compute the reward of a team, in [-0.4, 1.1], with its components.

    Args:
        texts: The text of each agent.
        functions: Descriptions with `name` and `parameters`, a JSON schema.
        right: Calls of the answer key, `{"f": {"a": [right values]}}`.
    """
    known = {str(function.get("name", "")): _parameters(function) for function in functions}
    read = [calls_in(text, known) for text in texts]
    by_agent = [_once(calls) for calls in read]
    calls, every = _once([call for calls in by_agent for call in calls]), [call for calls in read for call in calls]
    gold = [(str(name), dict(arguments or {})) for call in right for name, arguments in [next(iter(call.items()))]]
    most = max(1, len(gold))
    arguments, exact = _paired(calls, gold)
    ideal = [len(gold) // len(texts) + (place < len(gold) % len(texts)) for place in range(len(texts))]
    uneven = sum(abs(len(calls) - share) for calls, share in zip(by_agent, ideal, strict=True))
    parts = {
        "parse": float(bool(calls)),
        "names": _f1(Counter(call.name for call in calls), Counter(name for name, _ in gold)),
        "arguments": arguments,
        "count": max(0.0, 1 - abs(len(calls) - len(gold)) / most),
        "balance": max(0.0, 1 - uneven / most),
        "exact": float(0 < exact == len(calls) == len(gold)),
        "overlap": min(1.0, (sum(map(len, by_agent)) - len(calls)) / most),
        "lazy": sum(not calls for calls in by_agent) / len(texts),
        "extra": min(1.0, max(0, len(calls) - len(gold)) / most),
        "duplicate": min(1.0, (len(every) - len(calls)) / most),
    }
    paid = {name: WEIGHTS[name] * value for name, value in parts.items()}
    return Score(max(LOWEST, sum(paid.values())), paid, {"exact": parts["exact"]})


def _once(calls: Sequence[Asked]) -> list[Asked]:
    first: dict[Any, Asked] = {}
    for call in calls:
        first.setdefault(call.key, call)
    return list(first.values())


def _f1(calls: Counter[str], gold: Counter[str]) -> float:
    both = (calls & gold).total()
    return 2 * both / (calls.total() + gold.total()) if both else 0.0


def _paired(calls: Sequence[Asked], gold: Sequence[tuple[str, Mapping[str, Any]]]) -> tuple[float, int]:
    """Pair the calls of the answer key with the calls of the team, in the order of decreasing scores.

    Returns:
        The mean score of the answer key's calls, in [0, 1], and the number of exact pairs.
    """
    pairs = [(*_likeness(call, *right), i, j) for i, call in enumerate(calls) for j, right in enumerate(gold)]
    worth, exact, taken, found = 0.0, 0, set[int](), set[int]()
    for value, is_exact, i, j in sorted(pairs, key=lambda pair: pair[:2], reverse=True):
        if value > 0 and i not in taken and j not in found:
            worth, exact = worth + value, exact + is_exact
            taken.add(i)
            found.add(j)
    return worth / max(1, len(gold)), exact


def _likeness(call: Asked, name: str, right: Mapping[str, Any]) -> tuple[float, bool]:
    if call.name != name:
        return 0.0, False
    if not right:
        return (_NO_ARGUMENTS, False) if call.arguments else (1.0, True)
    matched = sum(n in call.arguments and _matches(call.arguments[n], values) for n, values in right.items())
    extra = len(call.arguments.keys() - right.keys())
    return matched / (len(right) + extra), matched == len(right) and not extra


def _matches(value: Any, right: Any) -> bool:
    if isinstance(right, list):
        return any(_matches(value, element) for element in cast("list[Any]", right))
    a, b = _plain(value), _plain(right)
    if isinstance(a, (int, float)) and isinstance(b, (int, float)):
        with contextlib.suppress(OverflowError):  # an integer too large for a float
            return abs(float(a) - float(b)) < 1e-6
    return a == b


def _plain(value: Any) -> Any:
    """Return the hashable form in which values are compared."""
    if isinstance(value, (list, tuple)):
        return tuple(map(_plain, cast("Sequence[Any]", value)))
    if isinstance(value, dict):
        return tuple(sorted(((str(k), _plain(v)) for k, v in cast("dict[Any, Any]", value).items()), key=_first))
    if value is None or isinstance(value, (int, float)):
        return value
    return re.sub(r"\s+", " ", str(value).strip().strip("\"'")).lower()


def _first(pair: tuple[str, Any]) -> str:
    return pair[0]


# --- parsing ----------------------------------------------------------------------------------------------------------


def calls_in(text: str, known: Mapping[str, Sequence[str]]) -> list[Asked]:
    """Return the calls of a text, in order.

    Args:
        text: The text of an agent; if it has more than 10,000 characters, the result is empty.
        known: The parameters of each function, in the order of positional arguments.
    """
    plain = text.strip()
    if not plain or len(plain) > LONGEST:
        return []
    if blocks := _FENCED.findall(plain):
        plain = "\n".join(block.strip() for block in blocks).strip()
    try:
        found = list(_json(plain)) or _python(plain, known)
        return [Asked(name, arguments, (name, _plain(arguments))) for name, arguments in found]
    except _UNREADABLE:
        return []


def _parameters(function: Mapping[str, Any]) -> list[str]:
    schema: Mapping[str, Any] = function.get("parameters") or {}
    return list(dict.fromkeys([*(schema.get("required") or ()), *(schema.get("properties") or ())]))


def _json(text: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for left, right in ("", ""), ("[", "]"), ("{", "}"):
        start, end = (text.find(left), text.rfind(right)) if left else (0, len(text) - 1)
        if start < 0 or end < start:
            continue
        try:
            value = json.loads(text[start : end + 1])
        except ValueError:
            continue
        yield from _from_json(value)
        return


def _from_json(value: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    if isinstance(value, list):
        for element in cast("list[Any]", value):
            yield from _from_json(element)
    if not isinstance(value, dict):
        return
    call = cast("dict[str, Any]", value)
    for name in ("name", "function"):
        if name in call:
            yield str(call[name]), _arguments(call.get("arguments", call.get("parameters")))
            return
    if len(call) == 1:
        name, arguments = next(iter(call.items()))
        if isinstance(arguments, dict):
            yield name, cast("dict[str, Any]", arguments)


def _arguments(value: Any) -> dict[str, Any]:
    """Return the arguments from an object, or from the text of one."""
    if isinstance(value, str):
        for load in (json.loads, parsing.literal):
            with contextlib.suppress(*_UNREADABLE):
                return _arguments(load(value.strip()))
        return {}
    try:
        return dict(value or ())
    except (TypeError, ValueError):
        return {}


def _python(text: str, known: Mapping[str, Sequence[str]]) -> list[tuple[str, dict[str, Any]]]:
    for piece in (text, f"[{text}]", *_spans(text, known)):
        if calls := [call for node in _nodes(piece) for call in _from_node(node, known)]:
            return calls
    return []


def _spans(text: str, known: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Yield the parts of a text that look like a call of a known function, longest names first."""
    closed, opened = dict[int, int](), list[int]()
    for place, letter in enumerate(text):
        if letter == "(":
            opened.append(place)
        elif letter == ")" and opened:
            closed[opened.pop()] = place
    for name in sorted(known, key=len, reverse=True):
        for match in re.finditer(rf"(?<![\w.]){re.escape(name)}\s*\(", text):
            if end := closed.get(match.end() - 1):
                yield text[match.start() : end + 1]


def _nodes(text: str) -> list[ast.Call]:
    """Return the calls in an expression, a list, or lines."""
    for word, constant in _CONSTANTS.items():
        text = re.sub(rf"\b{word}\b", constant, text, flags=re.IGNORECASE)
    try:
        body = parsing.expression(text)
        nodes = body.elts if isinstance(body, (ast.List, ast.Tuple)) else [body]
    except SyntaxError:
        try:
            nodes = [line.value for line in parsing.module(text).body if isinstance(line, ast.Expr)]
        except _UNREADABLE:
            return []
    return [node for node in nodes if isinstance(node, ast.Call)]


def _from_node(node: ast.Call, known: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, dict[str, Any]]]:
    if not (name := _name(node.func)):
        return
    placed = dict(zip(known.get(name, ()), map(_value, node.args), strict=False))
    yield name, placed | {named.arg: _value(named.value) for named in node.keywords if named.arg is not None}


def _name(node: ast.expr) -> str:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        owner = _name(node.value)
        return f"{owner}.{node.attr}" if owner else node.attr
    return ""


def _value(node: ast.expr) -> Any:
    """Return the value of a literal, or the text of another expression."""
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, (ast.List, ast.Tuple)):
        return list(map(_value, node.elts))
    if isinstance(node, ast.Dict):
        return {_value(k): _value(v) for k, v in zip(node.keys, node.values, strict=True) if k is not None}
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        value = _value(node.operand)
        return -value if isinstance(value, (int, float)) else value
    return ast.unparse(node)
