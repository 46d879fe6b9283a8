"""Names of the tensors of peft's adapters."""

from __future__ import annotations

import re

_FACTOR = re.compile(r"(\.lora_[AB])\.([^.]+)")


def adapter_of(name: str) -> str | None:
    """Whose tensor this is: peft puts the adapter's name, which has no dot, behind that of the factor."""
    match = _FACTOR.search(name)
    return match[2] if match else None


def without_adapter(name: str) -> str:
    """peft's name of a tensor in a file, where the name of the adapter is left out."""
    return _FACTOR.sub(r"\1", name, count=1)
