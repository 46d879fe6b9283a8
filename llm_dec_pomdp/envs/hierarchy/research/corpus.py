"""Corpora, which are searched and read. Each has one index, built at the first search and shared by all environments.

A task names its corpus by a text: `world:3` (a procedural world), the path of a JSONL file or of a folder of text
files, or the passages themselves as lines of JSON. Agents are told what is in a corpus, and task files come from
strangers, so a path leads below the task file's folder or the working folder, also after links are followed.

A passage is an object with `text`, and optionally `title`, `part`, and `support: true` where the answer is known to
rest on it. Rows of HotpotQA (arXiv:1809.09600) and 2WikiMultihopQA (arXiv:2011.01060) bring their passages with them.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from ...tasks import TaskError, json_lines
from ...tools.search import Index

_KEPT = 64  # corpora in memory
_MOST_BYTES = 1 << 28  # of the files of one


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

    def listed(self, places: tuple[int, ...]) -> str:
        """Passages with their numbers and, where the text does not name it, the title of their page."""
        lines: list[str] = []
        for place in places:
            text, title = self.passages[place][:2]
            lines.append(f"[{place}] {text}" if not title or title in text else f"[{place}] {title}: {text}")
        return "\n".join(lines)

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
    return Corpus(_from_lines(_read([path])[0], str(path)))


def placed(name: str, folder: Path) -> str:
    """The name of a corpus, a path in it made independent of the folder of the task file and of links.

    Raises:
        TaskError: The path leads nowhere, or neither below that folder nor below the working folder.
    """
    if name.startswith("world:") or name.lstrip().startswith("{"):
        return name
    roots = (folder.resolve(), Path.cwd())
    try:
        found = [path.resolve() for path in (folder / name, Path(name)) if path.is_dir() or path.is_file()]
    except (OSError, ValueError, RuntimeError):  # a name that is too long, holds NUL, or a link to itself
        found = []
    if not found:
        raise TaskError(
            f"corpus {name!r:.200} does not exist; give the path of a .jsonl file with a `text` in every line, or of a "
            "folder of .txt files"
        )
    for path in found:
        if any(path.is_relative_to(root) for root in roots):
            return str(path)
    raise TaskError(
        f"corpus {name!r:.200} is {str(found[0])!r:.200}, neither below the task file's folder {str(roots[0])!r} nor "
        f"below the working folder {str(roots[1])!r}; put it, not a link to it, beside the task file"
    )


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
    paths = [path for path in sorted(folder.rglob("*.txt")) if path.is_file()]  # and no pipes and devices
    for path in paths:
        if not path.resolve().is_relative_to(folder.resolve()):
            raise TaskError(f"corpus file {str(path)!r} is a link out of its folder; put a copy of the file there")
    for path, text in zip(paths, _read(paths), strict=True):
        above = path.relative_to(folder).parts
        part = above[0] if len(above) > 1 else ""
        passages += (Passage(line.strip(), path.stem, part) for line in text.split("\n") if line.strip())
    if not passages:
        raise TaskError(f"corpus folder {str(folder)!r} has no .txt file with text; put at least one there")
    return tuple(passages)


def _read(paths: Sequence[Path]) -> list[str]:
    """The texts of regular files, of a limited size together."""
    texts, left = list[str](), _MOST_BYTES
    for path in paths:
        try:
            with path.open("rb") as file:
                content = file.read(left + 1)
            texts.append(content[:left].decode("utf-8-sig"))
        except (OSError, UnicodeDecodeError) as error:
            raise TaskError(f"corpus file {str(path)!r} cannot be read as UTF-8 text ({error}); convert it") from None
        left -= len(content)
        if left < 0:
            raise TaskError(f"corpus file {str(path)!r}: a corpus has more than {_MOST_BYTES} bytes; leave some out")
    return texts


# --- published data sets ----------------------------------------------------------------------------------------------


def from_published(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """Give a row of a published data set a `corpus`, a line for each sentence; other rows stay as they are.

    Such rows have `question`, `answer`, `context` (titles and sentences of pages) and `supporting_facts` (title of a
    page and index of a sentence). The last two are columns on the hub, and lists of pairs in the released files.

    Raises:
        TaskError: `context` or `supporting_facts` have another form.
    """
    if "context" not in row or "corpus" in row:
        return row
    support = {(title, place) for title, place in _pairs(row, "supporting_facts", ("title", "sent_id"), int)}
    lines = [
        json.dumps({"text": sentence.strip(), "title": title, "support": (title, place) in support})
        for title, sentences in _pairs(row, "context", ("title", "sentences"), list)
        for place, sentence in enumerate(cast("list[str]", sentences))
        if sentence.strip()
    ]
    return {**row, "corpus": "\n".join(lines)}


def _pairs(row: Mapping[str, Any], name: str, columns: tuple[str, str], kind: type) -> Sequence[tuple[str, Any]]:
    """The pairs of a field, which may be stored in two columns."""
    value: Any = row.get(name, [])
    try:
        if isinstance(value, dict):
            table = cast("dict[str, Any]", value)
            value = zip(table[columns[0]], table[columns[1]], strict=True)
        pairs: list[tuple[Any, Any]] | None = [(title, other) for title, other in value]
    except (KeyError, TypeError, ValueError):
        pairs = None
    if pairs is None or not all(isinstance(title, str) and isinstance(other, kind) for title, other in pairs):
        raise TaskError(
            f"field {name!r} is {value!r:.80}; it holds pairs of {columns[0]} and {columns[1]}, or these two as columns"
        )
    return pairs
