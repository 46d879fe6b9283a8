"""Corpora, which are searched and read. Each has one index, built at the first search and shared by all environments.

A task names its corpus by a text: `world:3` (a procedural world), the path of a JSONL file or of a folder of text
files, or the passages themselves as lines of JSON. A passage is an object with `text`, and optionally `title`, `part`,
and `support: true` where the answer is known to rest on it.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from ..tasks import TaskError, json_lines
from .search import Index

_KEPT = 64  # corpora in memory


class Passage(NamedTuple):
    """A piece of text that is found and read as one."""

    text: str  # a sentence or a few
    title: str  # of its page; the passages of a page follow each other
    part: str = ""  # of the corpus, to which a specialist may be bound; "" where a corpus has no parts
    support: bool = False  # a published data set says that the answer rests on it


@dataclass(frozen=True)
class Corpus:
    """What is searched and read."""

    passages: tuple[Passage, ...]  # page by page

    @functools.cached_property
    def index(self) -> Index:
        """Built once."""
        return Index([f"{p.title}. {p.text}" if p.title not in p.text else p.text for p in self.passages])

    @functools.cached_property
    def parts(self) -> tuple[str, ...]:
        """Names of the parts, in the order of the passages."""
        return tuple(dict.fromkeys(passage.part for passage in self.passages if passage.part))

    @functools.cached_property
    def support(self) -> frozenset[int]:
        """Indices of the passages that the answer is known to rest on."""
        return frozenset(place for place, passage in enumerate(self.passages) if passage.support)

    def search(self, query: str, count: int, parts: tuple[str, ...]) -> tuple[int, ...]:
        """Indices of the passages that fit a query best, within `parts` where any are named."""
        return self.index.best(query, count, self._in_parts(parts) if parts else None)

    def page(self, place: int, width: int) -> tuple[int, ...]:
        """Indices of the passages on the same page, at most `width` before and after one."""
        title = self.passages[place].title
        near = range(max(0, place - width), min(len(self.passages), place + width + 1))
        return tuple(other for other in near if self.passages[other].title == title)

    def _in_parts(self, parts: tuple[str, ...]) -> npt.NDArray[np.bool_]:
        masks: dict[tuple[str, ...], npt.NDArray[np.bool_]] = self._masks
        if parts not in masks:
            masks[parts] = np.array([passage.part in parts for passage in self.passages], dtype=np.bool_)
        return masks[parts]

    @functools.cached_property
    def _masks(self) -> dict[tuple[str, ...], npt.NDArray[np.bool_]]:
        return {}


@functools.lru_cache(maxsize=_KEPT)
def corpus(name: str) -> Corpus:
    """The corpus of that name, read once.

    Raises:
        TaskError: It is missing or malformed; the message names the file, the line and the field.
    """
    if name.startswith("world:"):
        return Corpus(_of_world(name.partition(":")[2]))
    if name.lstrip().startswith("{"):
        return Corpus(_from_lines(name, "its passages"))
    path = Path(name)
    if path.is_dir():
        return Corpus(_from_folder(path))
    if not path.is_file():
        raise TaskError(
            f"corpus {name!r:.200} does not exist; give the path of a .jsonl file with a `text` in every line, or of a "
            "folder of .txt files"
        )
    return Corpus(_from_lines(_read(path), str(path)))


def _of_world(number: str) -> tuple[Passage, ...]:
    from .worlds import most_worlds, world

    if not number.isdecimal() or int(number) >= most_worlds():
        raise TaskError(f"corpus 'world:{number:.40}' does not exist; worlds are world:0 to world:{most_worlds() - 1}")
    return world(int(number)).passages


def _from_lines(text: str, place: str) -> tuple[Passage, ...]:
    passages = tuple(_passage(row, where) for where, row in json_lines(text, place))
    if not passages:
        raise TaskError(f'{place}: no passages; a corpus has at least one line, such as {{"text": "..."}}')
    return passages


def _passage(row: Any, place: str) -> Passage:
    if not isinstance(row, dict):
        raise TaskError(f'{place}: holds a {type(row).__name__}; every line is an object such as {{"text": "..."}}')
    fields = cast("dict[str, Any]", row)
    for name in ("text", "title", "part"):
        value = fields.get(name, "" if name != "text" else None)
        if not isinstance(value, str) or (name == "text" and not value.strip()):
            what = f"is {value!r:.60}" if name in fields else "is missing"
            raise TaskError(f"{place}, field {name!r}: {what}; give it text or remove the line")
    if not isinstance(fields.get("support", False), bool):
        raise TaskError(f"{place}, field 'support': is {fields['support']!r:.60}; it is true or false")
    return Passage(fields["text"], fields.get("title", ""), fields.get("part", ""), fields.get("support", False))


def _from_folder(folder: Path) -> tuple[Passage, ...]:
    """Every line of the .txt files is a passage, a file is a page, and a sub-folder is a part."""
    passages: list[Passage] = []
    for path in sorted(folder.rglob("*.txt")):
        above = path.relative_to(folder).parts
        part = above[0] if len(above) > 1 else ""
        passages += (Passage(line.strip(), path.stem, part) for line in _read(path).split("\n") if line.strip())
    if not passages:
        raise TaskError(f"corpus folder {str(folder)!r} has no .txt file with text; put at least one there")
    return tuple(passages)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise TaskError(f"corpus file {str(path)!r} cannot be read as UTF-8 text ({error}); convert it") from None
