"""The corpus of a question: passages to search and read, and tables to query.

The field `corpus` of a task is one of these:

- `world:3`, a procedural world;
- the path of a JSONL file, or of a folder of text files;
- the passages themselves, as lines of JSON.

A passage is an object with `text`, and optionally `title`. It has `support: true` if the answer is known to rest on it.
Rows of HotpotQA (arXiv:1809.09600) and 2WikiMultihopQA (arXiv:2011.01060) contain their passages. Only worlds have
tables.

Agents observe the contents of a corpus, and task files may come from strangers. So a path has to lead to a place in
the folder of the task file or in the working folder, also after links are followed.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

from llm_dec_pomdp.envs import TaskError, json_lines
from llm_dec_pomdp.storage.reading import FileError, open_file

from .worlds import worlds

_KEPT = 64  # cached corpora
_MOST_BYTES = 1 << 28  # maximum size of the files of a corpus, in bytes


class Corpus(NamedTuple):
    """Passages and tables."""

    texts: tuple[str, ...]  # texts of the passages, page by page
    support: tuple[str, ...] = ()  # passages that are known to support the answer
    script: str = ""  # SQL that creates the tables


@functools.lru_cache(maxsize=_KEPT)
def corpus(name: str) -> Corpus:
    """Return the corpus of a name; it is cached.

    Raises:
        TaskError: It is missing or malformed; the message names the file, the line and the field.
    """
    if name.startswith("world:"):
        return _of_world(name.partition(":")[2])
    if name.lstrip().startswith("{"):
        return _from_lines(name, "its passages")
    path = Path(name)
    return _from_folder(path) if path.is_dir() else _from_lines(_read([path])[0], str(path))


def placed(name: str, folder: Path) -> str:
    """Resolve the name of a corpus: a path becomes absolute and free of links, other names are unchanged.

    Args:
        name: The field `corpus`.
        folder: The folder of the task file.

    Raises:
        TaskError: The path does not exist, or is neither in that folder nor in the working folder.
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
        f"corpus {name!r:.200} is {str(found[0])!r:.200}, neither in the task file's folder {str(roots[0])!r} nor "
        f"in the working folder {str(roots[1])!r}; put the file itself, not a link, next to the task file"
    )


def _of_world(number: str) -> Corpus:
    of = worlds().get(int(number)) if number.isdecimal() else None
    if of is None:
        known = ", ".join(f"world:{known}" for known in worlds())
        raise TaskError(f"corpus 'world:{number:.40}' does not exist; worlds are {known}")
    return Corpus(of.texts, script=of.script)


def _from_lines(text: str, place: str) -> Corpus:
    passages = [_passage(row, where) for where, row in json_lines(text, place)]
    if not passages:
        raise TaskError(f'{place}: has no passages; give at least one line, such as {{"text": "..."}}')
    return Corpus(tuple(text for text, _ in passages), tuple(text for text, support in passages if support))


def _passage(row: Any, place: str) -> tuple[str, bool]:
    """Return the text of a passage, and whether it supports the answer. A title that the text lacks precedes it."""
    if not isinstance(row, dict):
        raise TaskError(f'{place}: is a {type(row).__name__}; give an object such as {{"text": "..."}} in every line')
    fields = cast("dict[str, Any]", row)
    for name in ("text", "title"):
        value = fields.get(name, "" if name != "text" else None)
        if not isinstance(value, str) or (name == "text" and not value.strip()):
            what = f"is {value!r:.60}" if name in fields else "is missing"
            raise TaskError(f"{place}, field {name!r}: {what}; give it text or remove the line")
    if not isinstance(fields.get("support", False), bool):
        raise TaskError(f"{place}, field 'support': is {fields['support']!r:.60}; give true or false")
    text, title = fields["text"], fields.get("title", "")
    return (text if title in text else f"{title}: {text}"), fields.get("support", False)


def _from_folder(folder: Path) -> Corpus:
    """Return the lines of the .txt files as passages; the file name precedes each line that does not contain it."""
    passages: list[str] = []
    paths = [path for path in sorted(folder.rglob("*.txt")) if path.is_file()]  # without pipes and devices
    for path in paths:
        if not path.resolve().is_relative_to(folder.resolve()):
            raise TaskError(f"corpus file {str(path)!r} is a link out of its folder; put a copy of the file there")
    for path, text in zip(paths, _read(paths), strict=True):
        lines = (line.strip() for line in text.split("\n") if line.strip())
        passages += (line if path.stem in line else f"{path.stem}: {line}" for line in lines)
    if not passages:
        raise TaskError(f"corpus folder {str(folder)!r} has no .txt file with text; put at least one there")
    return Corpus(tuple(passages))


def _read(paths: Sequence[Path]) -> list[str]:
    """Return the texts of files, which together have at most `_MOST_BYTES` bytes."""
    texts, left = list[str](), _MOST_BYTES
    for path in paths:
        try:
            with open_file(path) as file:
                content = file.read(left + 1)
            texts.append(content[:left].decode("utf-8-sig"))
        except (FileError, OSError, UnicodeDecodeError) as error:
            raise TaskError(f"corpus file {str(path)!r} cannot be read as UTF-8 text ({error}); convert it") from None
        left -= len(content)
        if left < 0:
            raise TaskError(f"corpus file {str(path)!r}: a corpus has more than {_MOST_BYTES} bytes; remove passages")
    return texts


# --- published data sets ----------------------------------------------------------------------------------------------


def from_published(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """Add a `corpus` with a line for each sentence to a row of a published data set; return other rows unchanged.

    A published row has `question`, `answer`, `context` (titles and sentences of pages) and `supporting_facts` (title of
    a page and index of a sentence). The last two are columns on the hub, and lists of pairs in the released files.

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
    """Return the pairs of a field, which may be stored in two columns."""
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
            f"field {name!r} is {value!r:.80}; give pairs of {columns[0]} and {columns[1]}, or these two columns"
        )
    return pairs
