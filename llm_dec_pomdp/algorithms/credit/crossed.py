"""Cross-product credit: each completion has the mean return of all joint actions of its group that contain it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from ...rollout import Crossed, Rollout, Tree
from ...types import Group
from ..advantages import Compare, marginal_advantages
from ..samples import Sample
from .base import BaselineCredit, at_decisions

if TYPE_CHECKING:
    from ...envs.base import TextDecPOMDP


class CrossedCredit(BaselineCredit):
    """Credit from all G^n joint actions of G completions per agent: G^n rewards, without further generations."""

    tree: bool = False
    """Branch every joint action again at the next turn; without it, episodes must have one turn."""

    @property
    def rollout(self) -> Rollout:
        """All combinations of completions, of one turn or of every turn."""
        return Tree("cross") if self.tree else Crossed()

    def incompatibility(self, env: TextDecPOMDP) -> str:
        """See `Credit`; without a tree, episodes must have one turn."""
        if self.tree or env.max_turns == 1:
            return ""
        return f"credit is 'crossed', but episodes of {env.metadata['name']} have {env.max_turns} turns; set tree=true"

    def samples(self, group: Group, gamma: float, advantages: Compare | None = None) -> Iterator[Sample]:
        """Return one sample per agent and completion, see `marginal_advantages`."""
        return at_decisions(group, gamma, partial(marginal_advantages, kind=advantages or self.advantages))
