"""What a wrapper of a text environment does not change is that of the environment inside."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...types import Scale, TaskItem
from ..base import TextDecPOMDP

if TYPE_CHECKING:
    from typing_extensions import Self


class Wrapper(TextDecPOMDP):
    """Base of protocols and of tasks around tasks: attributes, numbers, items and texts of the inner environment."""

    env: TextDecPOMDP

    def _take_over(self, env: TextDecPOMDP, name: str) -> None:
        """Take an environment inside, under a name behind its own."""
        self.env = env
        self.roles = env.roles
        self.components = env.components
        self.diagnostics = env.diagnostics
        self.hidden_fields = env.hidden_fields
        self.reference_share = env.reference_share
        self.silence_is_lowest = env.silence_is_lowest
        self.joint_reward = env.joint_reward
        self.judges_code = env.judges_code
        self.metadata = {**env.metadata, "name": f"{env.metadata['name']}/{name}"}

    def _around(self, env: TextDecPOMDP) -> Self:
        """The same around another environment."""
        twin = copy.copy(self)
        twin.env = env
        return twin

    @property
    def reward_range(self) -> tuple[float, float]:
        """That of the inner environment."""
        return self.env.reward_range

    @property
    def score_range(self) -> tuple[float, float]:  # type: ignore[override]  # may follow max_turns
        """That of the inner environment."""
        return self.env.score_range

    @property
    def max_return(self) -> float:
        """That of the inner environment."""
        return self.env.max_return

    @property
    def score_scale(self) -> Scale:
        """That of the inner environment."""
        return self.env.score_scale

    @property
    def items(self) -> tuple[TaskItem, ...]:
        """The task set of the inner environment."""
        return self.env.items

    def with_items(self, items: Sequence[TaskItem]) -> TextDecPOMDP:
        """A copy that plays other tasks, as they are given."""
        return self._around(self.env.with_items(items))

    def menu(self, agent: str) -> Sequence[str]:
        """That of the inner environment."""
        return self.env.menu(agent)

    def shown(self, text: str) -> str:
        """As the inner environment does."""
        return self.env.shown(text)

    def split_joint_text(self, text: str) -> tuple[str, ...]:
        """As the inner environment does."""
        return self.env.split_joint_text(text)

    def join_texts(self, texts: Sequence[str]) -> str:
        """As the inner environment does."""
        return self.env.join_texts(texts)
