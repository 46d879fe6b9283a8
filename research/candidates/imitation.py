"""Imitation for tables, for the suite `distil`; the learner of the package trains language models only.

    methods = [{ name = "research.candidates.imitation:TableImitation", label = "imitation" }]

Run the suite in the root folder of the repository with `--trust`, so that `research` can be imported.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llm_dec_pomdp.agents.base import Policy, Request, Sampling, Team
from llm_dec_pomdp.algorithms.imitation import Imitation
from llm_dec_pomdp.rollout import Demonstrations
from llm_dec_pomdp.types import Completion, Group


class Written(Policy):
    """The tables of a team, which read a given action as its index in their menu; they never act."""

    def __init__(self, team: Team) -> None:
        self._team = team

    def generate(self, requests: Sequence[Request], sampling: Sampling) -> list[list[Completion]]:
        """Raise NotImplementedError: only the teacher acts."""
        raise NotImplementedError("only the teacher acts")

    def to_completion(self, request: Request, text: str, limit: int, thought: str = "") -> Completion:
        """Return a given action as a completion of the agent's table."""
        table: Any = self._team.members[request.agent]
        return Completion(text, tuple(table.encode(request.history)), (table.menu.index(text),), (0.0,))


class TableImitation(Imitation):
    """Behaviour cloning of tables."""

    shows_texts = False  # the check of the core, which refuses tables

    @property
    def rollout(self) -> Any:
        """The rollout of the teacher's episodes, with the indices of its actions."""
        return ImitationOfCandidates(self.config.source)


class ImitationOfCandidates(Demonstrations):
    """Demonstrations for tables."""

    def groups(self, batch: Any) -> list[Group]:
        """Return groups of the teacher's episodes."""
        return super().groups(batch._replace(policy=Written(batch.policy)))
