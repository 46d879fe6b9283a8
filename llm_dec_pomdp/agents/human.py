"""A person as a member of a team."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..types import Completion
from .base import Policy, Request, Sampling


class Human(Policy):
    """Shows the observation to a person and takes the answer.

    Args:
        ask: From agent and its last observation to the person's text, e.g. a terminal prompt.
    """

    def __init__(self, ask: Callable[[str, str], str]) -> None:
        self._ask = ask

    def generate(self, requests: Sequence[Request], sampling: Sampling) -> list[list[Completion]]:
        """One answer per wanted sample."""
        return [[Completion(self._ask(r.agent, r.history[-1].text)) for _ in r.seeds] for r in requests]
