# pyright: basic
"""Folders that appear only when they are complete, and files that survive a loss of power.

A `Draft` is built under a temporary name in the same parent folder. Every file is hashed while it is written, and
fsynced. `manifest.json`, with the size and SHA-256 of every file and of itself, is written last. Then the folder is
renamed to its final name, and the parent is fsynced. `verify` checks a folder against its manifest.

Tensors are saved as safetensors, everything else as JSON; nothing is pickled. The package safetensors keeps copies of
all tensors of an accelerator in host memory while it writes, and hashing would need a second read. This module
therefore writes the format itself, one tensor at a time.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import shutil
import struct
from collections.abc import Generator, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .reading import FileError, conform, is_there, open_file, parse, read_bytes
from .secrets import masked

if TYPE_CHECKING:
    import torch

MANIFEST = "manifest.json"
_PIECE = 1 << 24  # bytes that are written and hashed at once
_DTYPES = {
    "float64": "F64",
    "float32": "F32",
    "bfloat16": "BF16",
    "float16": "F16",
    "int64": "I64",
    "int32": "I32",
    "int16": "I16",
    "int8": "I8",
    "uint8": "U8",
    "bool": "BOOL",
}


class DamagedError(ValueError):
    """A folder that was changed or is incomplete; the message names the file."""


@dataclass(frozen=True, slots=True)
class _Written:
    """Size in bytes and SHA-256 of a file when it was written."""

    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class _Manifest:
    """The content of `manifest.json`."""

    files: dict[str, _Written]
    sha256: str


# --- writing ----------------------------------------------------------------------------------------------------------


class Draft:
    """A folder that is being written. Use it as a context manager: without `publish` the folder is removed.

    Args:
        place: Final path of the folder. A folder that exists there stays until `publish` replaces it.
    """

    def __init__(self, place: Path) -> None:
        self.place = place
        self.folder = place.with_name(f".{place.name}-{os.getpid()}")
        self._files: dict[str, _Written] = {}

    def __enter__(self) -> Draft:
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        return self

    def __exit__(self, *exc: object) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def write(self, name: str, pieces: Iterable[bytes | memoryview]) -> None:
        """Write a file from pieces of bytes; `name` may begin with folders."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        digest, size = hashlib.sha256(), 0
        with path.open("wb", buffering=0) as file:
            for piece in pieces:
                digest.update(piece)
                size += _write_all(file.fileno(), piece)
            os.fsync(file.fileno())
        self._files[name] = _Written(size, digest.hexdigest())

    def write_json(self, name: str, value: Any) -> None:
        """Write a JSON file."""
        self.write(name, [masked(_json_bytes(value))])

    def write_tensors(self, name: str, tensors: Mapping[str, torch.Tensor]) -> None:
        """Write a safetensors file piece by piece, without copying all tensors at once."""
        self.write(name, _safetensors(tensors))

    def publish(self) -> None:
        """Write the manifest, fsync everything, and rename the folder to its final path."""
        manifest = _render_manifest(self._files)
        for folder in {(self.folder / name).parent for name in self._files} - {self.folder}:
            fsync(folder)
        self.write(MANIFEST, [manifest])
        fsync(self.folder)
        swap(self.folder, self.place)
        fsync(self.place.parent)


def swap(new: Path, place: Path) -> None:
    """Rename a folder to `place`; if that fails, an older folder there is kept."""
    aside = new.with_name(f"{new.name}.old")
    if place.exists():
        place.rename(aside)
    try:
        new.rename(place)
    except OSError:
        if aside.exists():
            aside.rename(place)
        raise
    shutil.rmtree(aside, ignore_errors=True)


def remove_drafts(parent: Path, pattern: str) -> None:
    """Remove the drafts of killed processes from `parent`."""
    for left in parent.glob(f".{pattern}-*"):
        shutil.rmtree(left, ignore_errors=True)


def replace_json(path: Path, value: Any) -> None:
    """Replace a JSON file atomically; see `replacing`."""
    replace(path, _json_bytes(value))


def replace(path: Path, content: bytes) -> None:
    """Replace a file atomically, with secrets masked; see `replacing`."""
    with replacing(path) as temporary:
        temporary.write_bytes(masked(content))


@contextlib.contextmanager
def replacing(path: Path) -> Generator[Path]:
    """Yield a temporary path, and rename its file to `path` at the end; `path` is always the old or the new file."""
    temporary = path.with_name(f".{path.name}-{os.getpid()}")
    temporary.unlink(missing_ok=True)  # a link of this name would be written through
    try:
        yield temporary
        fsync(temporary)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    fsync(path.parent)


def fsync(path: Path) -> None:
    """Flush a file, or the entries of a folder, to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _write_all(handle: int, piece: bytes | memoryview) -> int:
    rest = memoryview(piece)
    while rest:
        rest = rest[os.write(handle, rest) :]
    return len(piece)


def _json_bytes(value: Any) -> bytes:
    return (json.dumps(value, indent=1, default=_listed) + "\n").encode()


def _listed(value: Any) -> Any:
    """Return a set as a sorted list; configurations of models contain sets."""
    if isinstance(value, (set, frozenset)):
        return sorted(value)
    raise TypeError(f"a value of type {type(value).__name__} cannot be saved as JSON; use plain values")


def _safetensors(tensors: Mapping[str, torch.Tensor]) -> Iterable[bytes | memoryview]:
    """Yield the bytes of a safetensors file (https://github.com/huggingface/safetensors#format)."""
    import torch

    names = sorted(tensors, key=lambda name: (-tensors[name].element_size(), name))  # widest first: all aligned
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name in names:
        tensor, start = tensors[name], end
        dtype = str(tensor.dtype).removeprefix("torch.")
        if dtype not in _DTYPES:
            raise ValueError(f"{name} is of type {dtype}, which cannot be saved; use one of {', '.join(_DTYPES)}")
        end += tensor.numel() * tensor.element_size()
        header[name] = {"dtype": _DTYPES[dtype], "shape": list(tensor.shape), "data_offsets": [start, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    yield struct.pack("<Q", len(text)) + text
    for name in names:
        data = tensors[name].detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data
        for start in range(0, len(data), _PIECE):
            yield data[start : start + _PIECE]


# --- verifying --------------------------------------------------------------------------------------------------------


def verify(folder: Path) -> None:
    """Check a folder against its manifest.

    Raises:
        DamagedError: The manifest or a file is missing or has changed.
    """
    if not is_there(folder / MANIFEST):
        raise DamagedError(f"{MANIFEST} is missing")
    try:
        for name, written in _files_of(read_bytes(folder / MANIFEST)).items():
            _verify_file(folder, name, written)
    except FileError as error:
        raise DamagedError(str(error)) from None


def _files_of(manifest: bytes) -> Mapping[str, _Written]:
    try:
        files = conform(parse(manifest, MANIFEST), _Manifest, MANIFEST).files
    except FileError:
        files = {}
    if manifest != _render_manifest(files):
        raise DamagedError(f"{MANIFEST} is damaged ({len(manifest)} bytes)")
    return files


def _verify_file(folder: Path, name: str, written: _Written) -> None:
    if not is_there(folder / name):
        raise DamagedError(f"{name} is missing")
    digest = hashlib.sha256()
    with open_file(folder / name) as file:
        if (size := os.fstat(file.fileno()).st_size) != written.size:
            raise DamagedError(f"{name} has {size} bytes, not {written.size}")
        while piece := file.read(_PIECE):
            digest.update(piece)
    if digest.hexdigest() != written.sha256:
        raise DamagedError(f"{name} has changed (its SHA-256 differs)")


def _render_manifest(files: Mapping[str, _Written]) -> bytes:
    listed = json.dumps({name: asdict(written) for name, written in files.items()}, sort_keys=True)
    return _json_bytes({"files": json.loads(listed), "sha256": hashlib.sha256(listed.encode()).hexdigest()})


# --- nested values ----------------------------------------------------------------------------------------------------


def pack(value: Any, tensors: dict[str, torch.Tensor], path: str = "state") -> Any:
    """Return nested dictionaries of tensors and plain values as JSON values; put the tensors into `tensors`.

    Raises:
        TypeError: A value is neither a tensor nor a plain value.
    """
    import torch

    if isinstance(value, torch.Tensor):
        tensors[path] = value
        return {"$tensor": path}
    if isinstance(value, dict):
        items = [[key, pack(inner, tensors, f"{path}.{key}")] for key, inner in value.items()]
        plain = all(isinstance(key, str) and not key.startswith("$") for key in value)
        return dict(items) if plain else {"$dict": items}
    if isinstance(value, (list, tuple)):
        listed = [pack(inner, tensors, f"{path}.{number}") for number, inner in enumerate(value)]
        return {"$tuple": listed} if isinstance(value, tuple) else listed
    if isinstance(value, float) and not math.isfinite(value):
        return {"$float": str(value)}
    if value is None or type(value) in (str, int, float, bool):
        return value
    raise TypeError(f"{path} is a {type(value).__name__}, which cannot be saved; use tensors and plain values")


def unpack(value: Any, tensors: Mapping[str, torch.Tensor]) -> Any:
    """Return the value that `pack` encoded."""
    if isinstance(value, list):
        return [unpack(inner, tensors) for inner in value]
    if not isinstance(value, dict):
        return value
    if "$tensor" in value:
        return tensors[value["$tensor"]]
    if "$dict" in value:
        return {key: unpack(inner, tensors) for key, inner in value["$dict"]}
    if "$tuple" in value:
        return tuple(unpack(inner, tensors) for inner in value["$tuple"])
    if "$float" in value:
        return float(value["$float"])
    return {key: unpack(inner, tensors) for key, inner in value.items()}


def clean(name: str, kept: str) -> str:
    """Return a safe folder name: every character except letters, digits and those in `kept` becomes "_"."""
    return "".join(c if c.isalnum() or c in kept else "_" for c in name)
