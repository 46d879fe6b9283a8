"""Names of the tensors of peft's adapters."""

from __future__ import annotations

import re

_FACTOR = re.compile(r"(\.lora_[AB])\.([^.]+)")


def adapter_of(name: str) -> str | None:
    """The adapter that a tensor belongs to: peft writes its name, which has no dot, after that of the factor."""
    match = _FACTOR.search(name)
    return match[2] if match else None


def without_adapter(name: str) -> str:
    """The tensor's name in a file of peft, which leaves out the name of the adapter."""
    return _FACTOR.sub(r"\1", name, count=1)


def with_adapter(name: str, adapter: str) -> str:
    """The name of the same tensor of another adapter."""
    return _FACTOR.sub(rf"\1.{adapter}", name, count=1)
