"""Policies: who speaks. Concrete ones are imported by name, so that torch is loaded only when a model is."""

from .base import Policy, Request, Sampling, Team
from .remote import Expert, Remote, RemoteError
from .scripted import RandomText, Replay, Scripted

__all__ = [
    "Expert",
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
