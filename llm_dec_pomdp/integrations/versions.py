"""The releases of other libraries that the adapters of this package were tried with."""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, version

TRIED = {"benchmarl": "1.5.2", "comlrl": "1.4.3", "trl": "1.16.0"}


def require(library: str) -> None:
    """Raises ImportError with the command that helps, where a library is missing or older than what was tried.

    Args:
        library: A distribution of `TRIED`.
    """
    tried = TRIED[library]
    command = f"pip install torch==2.13.0 {library}=={tried}"
    try:
        installed = version(library)
    except PackageNotFoundError:
        raise ImportError(f"{library} is not installed; {command}") from None
    if _release(installed) < _release(tried):
        raise ImportError(f"{library} {installed} is older than {tried}, which this was written for; {command}")


def _release(text: str) -> tuple[int, ...]:
    """Its major and minor number."""
    return tuple(int(part) for part in re.findall(r"\d+", text)[:2])
