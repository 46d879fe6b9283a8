# pyright: basic
"""GGUF files, which transformers dequantises."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Generator

_lock = threading.Lock()


@contextlib.contextmanager
def read_once() -> Generator[None]:
    """Read the head of a GGUF file once, where transformers reads it three times and names its tensors again."""
    import gguf

    with _lock:
        reader, names = gguf.GGUFReader, gguf.get_tensor_name_map
        gguf.GGUFReader, gguf.get_tensor_name_map = functools.cache(reader), functools.cache(names)
        try:
            yield
        finally:
            gguf.GGUFReader, gguf.get_tensor_name_map = reader, names
