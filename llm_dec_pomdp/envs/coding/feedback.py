"""Messages to both programmers after a turn that did not solve the problem.

The docstring of `envs.coding.coophumaneval` describes the modes. Each message is about one turn only, because the
agent's history contains the earlier messages.
"""

from __future__ import annotations

import ast
import builtins
import contextlib
import json
import keyword
import re
import threading
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from ...types import Reviewer, Score, TaskItem
from . import analysis
from .reward import Program

MODES = ("none", "plain", "passed", "level_passed", "level_feedback", "expert")
EXPERT_TRIES = 3
_WORD = re.compile(r"\w{4,}")  # shorter words are too common to reveal the teammate's code
_LONG = 100  # the sandbox cuts long notes; a shorter line was not cut
_PYTHON = frozenset({*dir(builtins), *keyword.kwlist})


@dataclass(frozen=True, slots=True)
class Attempt:
    """A turn about which both agents receive a message."""

    item: TaskItem
    program: Program  # the two functions
    score: Score  # the score of the turn, with the notes of the sandbox
    shown: int  # number of failed asserts that may be shown

    def message(self, mode: str, role: str, edits: Mapping[str, str]) -> str:
        """Return the message to the agent in `role` ("aux" or "main")."""
        name, function = self._function_of(role)
        request = f"Write the complete new version of `{name}`. Write only the function."
        match mode:
            case "none":
                return request
            case "plain":
                body = f"Your function so far:\n\n{function}" if function else f"Your answer held no function `{name}`."
            case "passed":
                facts = self.score.diagnostics
                whole = 0 < facts.get("tests_total", 0.0) == facts["tests_passed"]
                body = "All tests passed." if whole else "Not all tests passed."
            case "expert":
                edit = edits.get(role, "").strip()
                body = f"A reviewer suggests for `{name}`:\n\n{edit}" if edit else "The reviewer suggests no change."
            case _:
                body = "\n".join(f"- {line}" for line in self._levels(role, reasons=mode == "level_feedback"))
        return f"{body}\n\n{request}"

    def _function_of(self, role: str) -> tuple[str, str]:
        """Return name and source of the function that `role` writes."""
        if role == "aux":
            return "aux", self.program.aux
        return self.item.fields["entry_point"], self.program.main

    def _levels(self, role: str, *, reasons: bool) -> list[str]:
        """Return one line per level that was reached."""
        name, function = self._function_of(role)
        if not analysis.has_return(function):
            missing = f"a function `{name}` without a return" if function else f"no function `{name}`"
            return ["definition: failed" + (f", your answer holds {missing}" if reasons else "")]
        lines = ["definition: passed"]
        if not self.score.components["syntax"]:
            return [*lines, "syntax: " + (self._syntax(function) if reasons else "failed")]
        lines.append("syntax: passed")
        passed, total = (int(self.score.diagnostics[f"tests_{which}"]) for which in ("passed", "total"))
        lines.append(f"tests: {passed} of {total} passed")
        if reasons:
            lines += [f"failed: {failure}" for failure in self._failures(role)]
        if role == "main":
            lines.append("helper: " + self._helper(reasons=reasons))
        return lines

    def _syntax(self, function: str) -> str:
        error = analysis.syntax_error(function)
        if error:
            return f"failed, {error}"
        if not self.program.main:
            return "not tried, the entry point is missing"
        if not analysis.has_return(self.program.main):
            return "not tried, the entry point has no return"
        return "failed in the other function; yours parses"

    def _failures(self, role: str) -> list[str]:
        """Return the first failed asserts; words that can only come from the teammate's code are masked."""
        other = self.program.main if role == "aux" else self.program.aux
        known = _words(f"{self._function_of(role)[1]}\n{self.item.prompt}\n{self.item.fields['test']}")
        secrets = _code_words(other) - known - _PYTHON
        return [_masked(line, secrets) for line in self.score.notes.get("detail", "").splitlines()[: self.shown]]

    def _helper(self, *, reasons: bool) -> str:
        use = analysis.cooperation(self.program.main)
        if not use.calls:
            return "not used" + (", call `aux(...)` where it helps" if reasons else "")
        if use.wraps and reasons:
            return "used, but your function only hands its result on; do a part of the work yourself"
        if use.drops and reasons:
            return "used, but the value of a call is dropped"
        return "used"


def _words(text: str) -> set[str]:
    return set(_WORD.findall(text))


def _code_words(function: str) -> set[str]:
    """Return the words that a function can put into an error message: its names and constants, escaped or not."""
    tree = analysis.parse(function) or ast.Module([], [])
    return _words("\n".join(_printed(value) for node in ast.walk(tree) for _, value in ast.iter_fields(node)))


def _printed(value: object) -> str:
    """Return a name or constant as an error message may print it; "" for other fields of a node."""
    match value:
        case str():
            return f"{value}\n{value!r}"
        case list():
            return "\n".join(_printed(part) for part in cast("list[object]", value))
        case ast.AST():
            return ""
        case _:
            with contextlib.suppress(ValueError):  # an integer too long for Python to print
                return repr(value)
            return ""


def _masked(line: str, secrets: set[str]) -> str:
    """Return a line with dots in place of secret words, including a word that is cut off at the end of the line."""

    def mask(match: re.Match[str]) -> str:
        cut = match.end() == len(line) > _LONG and any(word.startswith(match[0]) for word in secrets)
        return "..." if cut or match[0] in secrets else match[0]

    return _WORD.sub(mask, line)


def ask_expert(expert: Reviewer, item: TaskItem, program: Program, seconds: float) -> dict[str, str]:
    """Request edits of both functions from a reviewer.

    Args:
        expert: The reviewer, which answers a prompt; an exception counts as no answer.
        item: The problem; the reviewer does not see its tests.
        program: The two functions.
        seconds: Wall time for all tries together.

    Returns:
        New source by role, for the roles that the reviewer changes. Empty, with a warning, if no try returned usable
        JSON in time; the episode then continues without a review.
    """
    name = item.fields["entry_point"]
    prompt = (
        f"{item.prompt.strip()}\n\nTwo programmers share this problem. One wrote the helper `aux`:\n\n"
        f"{program.aux or '(nothing usable)'}\n\nThe other wrote `{name}`:\n\n{program.main or '(nothing usable)'}\n\n"
        'Review both. Answer with one JSON object and nothing else: {"aux": "...", "main": "..."}, each value the '
        f"complete improved source of `aux` and of `{name}`, or an empty text where nothing should change."
    )
    edits: list[dict[str, str]] = []
    failures: list[str] = []

    def review() -> None:
        for number in range(EXPERT_TRIES):
            try:
                answer = expert(prompt, number)
                edited = _edits(answer)
            except Exception as error:  # user code may raise anything; the next try follows
                failures.append(f"it raised {type(error).__name__}: {error}")
                continue
            if edited is not None:
                edits.append(edited)
                return
            failures.append(f"it answered {answer!r:.100}, which contains no JSON object with 'aux' or 'main'")

    thread = threading.Thread(target=review, daemon=True)
    thread.start()
    thread.join(seconds)
    if edits:
        return edits[0]
    why = failures[-1] if failures else "it did not answer in time"
    warnings.warn(f"no feedback from the reviewer in {len(failures)} tries, {seconds:g} s at most: {why}", stacklevel=2)
    return {}


def _edits(answer: str) -> dict[str, str] | None:
    """Return the edits of the first JSON object in an answer that has any; None if there is none."""
    decoder = json.JSONDecoder()
    for position, character in enumerate(answer):
        if character != "{":
            continue
        try:
            value: object = decoder.raw_decode(answer, position)[0]
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            values = cast("dict[str, object]", value)
            edits = {role: text for role in ("aux", "main") if isinstance(text := values.get(role), str)}
            if edits:
                return edits
    return None
