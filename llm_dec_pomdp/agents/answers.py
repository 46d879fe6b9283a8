"""A file of server answers, so that a resumed evaluation does not request them again."""

from __future__ import annotations

import hashlib
import json
import math
import sys
import threading
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from ..storage.reading import conform
from ..storage.runfolder import append, cut, read_lines
from ..types import Completion, Usage


class Answers:
    """Answers of a server by request; each is written to disk before it is used.

    Args:
        path: JSON Lines file; answers in it are returned in place of new requests.

    Raises:
        FileError: The file has other content.
    """

    def __init__(self, path: Path) -> None:
        cut(path, "number", sys.maxsize)  # an unfinished last line
        self._path = path
        self._lock = threading.Lock()
        self._known = {line["key"]: _completion(line, path) for line in read_lines(path)}
        self._count = len(self._known)

    def take(self, key: Mapping[str, Any]) -> Completion | None:
        """Return and remove the answer that an earlier process received; None if there is none."""
        with self._lock:
            return self._known.pop(_digest(key), None)

    def add(self, key: Mapping[str, Any], answer: Completion) -> None:
        """Append an answer to the file, and wait until it is on disk."""
        with self._lock:
            append(self._path, {"number": self._count, "key": _digest(key), "answer": asdict(answer)})
            self._count += 1

    def clear(self) -> None:
        """Delete the file; call this after the episodes that contain its answers are written."""
        with self._lock:
            self._path.unlink(missing_ok=True)
            self._known.clear()


def _digest(key: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(key, sort_keys=True).encode("ascii")).hexdigest()


def _completion(line: Mapping[str, Any], path: Path) -> Completion:
    answer = conform(line.get("answer"), dict[str, Any], f"{path}, field answer")
    counts = conform(answer.pop("usage", None) or [], list[int | None], f"{path}, field answer.usage")
    completion = conform(answer, Completion, f"{path}, field answer")
    usage = Usage(*(math.nan if count is None else count for count in counts)) if counts else None
    return replace(completion, usage=usage)
