"""Names of the tensors of peft's adapters."""

from __future__ import annotations

import re

from torch.nn import ModuleDict

BASE = "__base__"  # peft's name of the model below its adapters
_FACTOR = re.compile(r"(\.lora_[AB])\.([^.]+)")


def adapter_of(name: str) -> str | None:
    """Return the adapter of a tensor, or None: peft writes its name, which has no dot, after the name of the factor."""
    match = _FACTOR.search(name)
    return match[2] if match else None


def without_adapter(name: str) -> str:
    """Return the tensor's name in a file of peft, which leaves out the name of the adapter."""
    return _FACTOR.sub(r"\1", name, count=1)


def with_adapter(name: str, adapter: str) -> str:
    """Return the name of the same tensor in another adapter."""
    return _FACTOR.sub(lambda match: f"{match[1]}.{adapter}", name, count=1)


def adapter_name(agent: str) -> str:
    """Return a name for the adapter of an agent: the agent's name, escaped if peft refuses or reserves it.

    An adapter is an entry of a `torch.nn.ModuleDict`, whose names must not have a dot or equal its own attributes.
    """
    name = agent.replace("%", "%25").replace(".", "%2E")
    return f"%{name}" if name in ("", BASE) or hasattr(ModuleDict(), name) else name
