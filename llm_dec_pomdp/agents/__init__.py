"""Policies of agents. Policies that need torch are not imported here, so that torch is loaded only with a model."""

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
