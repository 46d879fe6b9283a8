# pyright: basic
"""GGUF files, which transformers dequantizes."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Generator

_lock = threading.Lock()


@contextlib.contextmanager
def read_once() -> Generator[None]:
    """Cache the header and the tensor names of a GGUF file, since transformers reads them three times."""
    import gguf

    with _lock:
        reader, names = gguf.GGUFReader, gguf.get_tensor_name_map
        gguf.GGUFReader, gguf.get_tensor_name_map = functools.cache(reader), functools.cache(names)
        try:
            yield
        finally:
            gguf.GGUFReader, gguf.get_tensor_name_map = reader, names
