"""A person as a member of a team."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..types import Completion
from .base import Policy, Request, Sampling


class Human(Policy):
    """A policy that shows the last observation to a person and returns the person's text.

    Args:
        ask: A function from an agent and its last observation to the person's text, e.g. a terminal prompt.
    """

    def __init__(self, ask: Callable[[str, str], str]) -> None:
        self._ask = ask

    def generate(self, requests: Sequence[Request], sampling: Sampling) -> list[list[Completion]]:
        """Return one text of the person per seed."""
        return [[Completion(self._ask(r.agent, r.history[-1].text)) for _ in r.seeds] for r in requests]
