"""Policies: who speaks. Concrete ones are imported by name, so that torch is loaded only when a model is."""

from .base import Policy, Request, Sampling, Team
from .remote import Expert, Remote, RemoteError
from .scripted import Gold, RandomText, Replay, Scripted

__all__ = [
    "Expert",
    "Gold",
    "Policy",
    "RandomText",
    "Remote",
    "RemoteError",
    "Replay",
    "Request",
    "Sampling",
    "Scripted",
    "Team",
]
