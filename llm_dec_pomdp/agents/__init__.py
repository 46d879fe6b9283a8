"""Policies: who speaks. Concrete ones are imported by name, so that torch is loaded only when a model is."""

from .base import Policy, Request, Sampling, Team, TrainablePolicy
from .scripted import Gold, RandomText, Replay, Scripted

__all__ = [
    "Gold",
    "Policy",
    "RandomText",
    "Replay",
    "Request",
    "Sampling",
    "Scripted",
    "Team",
    "TrainablePolicy",
]
