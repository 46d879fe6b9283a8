"""Wrappers: the same environment under another communication protocol."""

from .protocols import PROTOCOLS, Centralized, Discussion, ProtocolWrapper, Sequential, with_protocol

__all__ = ["PROTOCOLS", "Centralized", "Discussion", "ProtocolWrapper", "Sequential", "with_protocol"]
