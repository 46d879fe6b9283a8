"""Submissions: folders with the traces of all episodes, the statistics of a team, and a manifest of hashes.

| file | content |
|---|---|
| `submission.json` | `Submission`: the team, the suite with its digest, and the results of each task |
| `TASK.jsonl.xz` | the traces of a task, in the order of the suite |
| `TASK.silent.jsonl.xz` | the traces with a silent member; missing for a single agent |
| `TASK.partner.jsonl.xz` | the traces with a member of another team; missing without a partner team |
| `manifest.json` | size and SHA-256 of every file |

A submission may come from anyone. Files are read up to a size, and nothing in them is executed, except that the sandbox
runs the code that agents wrote.
"""

from __future__ import annotations

import lzma
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, FiniteFloat

from ..config import Config
from ..episodes import Trace
from ..episodes.header import encode
from ..storage.files import DamagedError
from ..storage.files import verify as verify_manifest
from ..storage.reading import FileError, parse, read_bytes, read_json
from ..storage.secrets import masked
from .suite import BoardError, Protocol

FORMAT = 1
SUBMISSION = "submission.json"
LARGEST = 1 << 26  # bytes of a file of traces, without compression
_MEMORY = 1 << 28  # bytes that the decompression may use
_Plain = Annotated[str, Field(pattern=r"^[\w .,:;+()#/@=%'-]*$")]  # cannot become markup
Name = Annotated[_Plain, Field(max_length=80)]
Kind = Literal["model", "table", "script", "exploit"]


class Measure(Config):
    """A mean with its 95 % interval over rows; the bounds are None if there is no interval."""

    mean: FiniteFloat
    low: FiniteFloat | None = None
    high: FiniteFloat | None = None


class TaskResult(Config):
    """The results of a team in one task.

    `verify` recomputes all fields except `seconds` from the traces. Statistics of tokens and seconds
    (`measure.REPORTED`) rely on the numbers in the traces, which cannot be checked.
    """

    environment: str
    protocol: Protocol
    trained_on: Name = ""
    """Environment on whose reward the team was trained; "" for none. Reported."""
    partner: Name = ""
    """Name of the team whose members play in turn in `TASK.partner.jsonl.xz`; "" for none. Reported."""
    returns: list[FiniteFloat]
    """Return in % of each row, or of each episode if there is a single row."""
    statistics: dict[Name, Measure]
    """Means over rows, by name; `measure.measure` defines them. A statistic that the task lacks is left out."""
    seconds: Annotated[FiniteFloat, Field(ge=0)]
    """Wall time of playing in seconds. Reported."""


class Submission(Config):
    """A team and its results."""

    format: Literal[1] = FORMAT
    suite: str
    digest: str
    """Digest of the suite."""
    version: Name
    """Version of the package that played."""
    name: Name
    kind: Kind
    """"script" and "exploit" are programs: "exploit" receives reward without doing the work."""
    model: Name
    method: Name
    """The prompting baseline, or the learner that trained the team."""
    note: Annotated[_Plain, Field(max_length=300)] = ""
    """Anything that a reader of the table should know. Reported."""
    tasks: Annotated[list[TaskResult], Field(min_length=1)]


def read(folder: Path) -> Submission:
    """Return the results of a submission; only their format is checked.

    Raises:
        BoardError: A file is missing, damaged or malformed; the message names it.
    """
    try:
        verify_manifest(folder)
        return read_json(folder / SUBMISSION, Submission)
    except (DamagedError, FileError) as error:
        raise BoardError(f"{str(folder)!r}: {error}") from None


def file_of(environment: str, change: str = "") -> str:
    """Return the name of the file with the traces of a task; `change` is "silent", "partner" or ""."""
    return f"{environment}.{change}.jsonl.xz" if change else f"{environment}.jsonl.xz"


def packed(traces: Iterable[Trace]) -> bytes:
    """Return traces as the content of a file, without server keys."""
    lines = b"".join(masked(encode(trace).encode("ascii")) + b"\n" for trace in traces)
    return lzma.compress(lines)


def read_traces(path: Path) -> Iterator[Trace]:
    """Yield the traces of a file.

    Raises:
        BoardError: The file is not a regular file, is damaged or too large, or a line is not a JSON object.
    """
    try:
        decompressor = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_MEMORY)
        content = decompressor.decompress(read_bytes(path), max_length=LARGEST)
        if not decompressor.eof:
            raise BoardError(f"{path.name}: it ends early, or has more than {LARGEST >> 20} MB without compression")
        for number, line in enumerate(content.splitlines(), 1):
            trace: Any = parse(line, f"{path.name}, line {number}")
            if not isinstance(trace, dict):
                raise BoardError(f"{path.name}, line {number}: it is a {type(trace).__name__}, not a trace")
            yield trace
    except (lzma.LZMAError, FileError) as error:
        raise BoardError(f"{path.name}: {error}") from None
