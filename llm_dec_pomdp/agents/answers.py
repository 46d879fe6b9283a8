"""Answers of servers in a file, so that an evaluation that fails asks for none of them again when it is resumed."""

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
    """Answers of a server by request; each is on disk before it is used.

    Args:
        path: JSONL file; the answers that it holds are given instead of asking for them again.

    Raises:
        FileError: The file holds something else.
    """

    def __init__(self, path: Path) -> None:
        cut(path, "number", sys.maxsize)  # an unfinished last line
        self._path = path
        self._lock = threading.Lock()
        self._known = {line["key"]: _completion(line, path) for line in read_lines(path)}
        self._count = len(self._known)

    def take(self, key: Mapping[str, Any]) -> Completion | None:
        """Return the answer from an earlier process, once; None where there is none."""
        with self._lock:
            return self._known.pop(_digest(key), None)

    def add(self, key: Mapping[str, Any], answer: Completion) -> None:
        """Keep an answer, durably."""
        with self._lock:
            append(self._path, {"number": self._count, "key": _digest(key), "answer": asdict(answer)})
            self._count += 1

    def clear(self) -> None:
        """Remove all answers, once the episodes that contain them are written."""
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
