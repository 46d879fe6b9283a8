"""Wrappers: the same environment under another communication protocol."""

from .protocols import (
    PROTOCOLS,
    Centralized,
    Discussion,
    GymnasiumView,
    ProtocolWrapper,
    Sequential,
    with_protocol,
)

__all__ = [
    "PROTOCOLS",
    "Centralized",
    "Discussion",
    "GymnasiumView",
    "ProtocolWrapper",
    "Sequential",
    "with_protocol",
]
