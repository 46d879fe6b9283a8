"""Fenced blocks of code in a text, as CommonMark defines them.

A fence is a line of at least three backticks or tildes, indented by at most three spaces. A closing fence has the same
character, is at least as long as the opening one, and nothing follows it. A block without a closing fence, which the
token limit may have cut off, ends with the text.

The content may itself contain fences, for example in a docstring. CommonMark does not know Python, so `blocks` checks
for each closing fence whether the content up to it is complete.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Sequence

_OPENING = re.compile(r"( {0,3})(`{3,}(?=[^`]*$)|~{3,})")
_MOST_TRIED = 1_000_000  # maximum number of characters passed to `whole`, over all tries of a text
_TRY = 100  # minimum number of characters that a try counts as


def blocks(text: str, whole: Callable[[str], bool]) -> list[str]:
    """Return the contents of the fenced blocks of a text, in order.

    A block ends at the first closing fence before which its content is complete. If there is none, it ends at a fence
    at the end of a line of code before which its content is complete; if there is none either, at the first closing
    fence.

    Args:
        text: A completion of a language model.
        whole: Returns True for complete content, such as a program that parses.
    """
    if "```" not in text and "~~~" not in text:
        return []
    lines = re.split(r"\r\n|\r|\n", text)
    found: list[str] = []
    left, at = _MOST_TRIED, 0
    while at < len(lines):
        opening = _OPENING.match(lines[at])
        at += 1
        if opening is None:
            continue
        first: tuple[str, int] | None = None
        for end, before in _ends(lines, at, opening[2]):
            content = "\n".join([*lines[at:end], *before, ""])
            if opening[1]:
                content = re.sub(f"^ {{1,{len(opening[1])}}}", "", content, flags=re.MULTILINE)
            first = first or (content, end)
            if left <= 0:
                break
            left -= max(_TRY, len(content))
            if whole(content):
                first = content, end
                break
        assert first is not None  # the text ends
        found.append(first[0])
        at = first[1] + 1
    return found


@functools.lru_cache(maxsize=64)
def _closing(fence: str) -> re.Pattern[str]:
    return re.compile(rf" {{0,3}}{fence[0]}{{{len(fence)},}}[ \t]*")


def _ends(lines: Sequence[str], start: int, fence: str) -> Iterator[tuple[int, Sequence[str]]]:
    """Yield the lines that may close a block, and the code before the fence of each: closing fences first."""
    closing = _closing(fence)
    for number in range(start, len(lines)):
        if closing.fullmatch(lines[number]):
            yield number, ()
    yield len(lines), ()
    for number in range(start, len(lines)):
        line = lines[number].rstrip(" \t")
        if line.endswith(fence) and (code := line.rstrip(fence[0])).strip():
            yield number, (code,)
