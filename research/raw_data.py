"""Read and write raw data of measurements: JSON, compressed with xz in files that end in .xz."""

from __future__ import annotations

import json
import lzma
from pathlib import Path
from typing import Any

DATA = Path(__file__).parent / "data"


def read(path: Path) -> Any:
    """Return the value in a JSON file, which is decompressed if its name ends in .xz."""
    stored = path.read_bytes()
    return json.loads(lzma.decompress(stored) if path.suffix == ".xz" else stored)


def write(path: Path, value: Any) -> None:
    """Write a value as JSON, compressed if the name ends in .xz. The bytes depend on the value only."""
    text = (json.dumps(value, indent=1) + "\n").encode()
    path.write_bytes(lzma.compress(text, preset=9) if path.suffix == ".xz" else text)
