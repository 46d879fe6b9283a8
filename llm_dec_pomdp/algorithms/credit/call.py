"""Credit for a tool call: the return with the call minus the return of a fork in which it is left out.

This is a difference reward (Wolpert & Tumer 2002) whose default action is a turn without a call. The default action
does not depend on the completion, so the gradient is unbiased.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from ...rollout import Calls, Rollout
from ...types import Group
from ..advantages import Array, Compare, counterfactual_advantages, group_advantages
from ..samples import Sample
from .base import Credit, at_decisions
from .joint import JointCredit

if TYPE_CHECKING:
    from ...envs.base import TextDecPOMDP


class CallCredit(Credit):
    """Call credit for agents that can call tools, and joint credit for all other agents.

    The return of a completion is compared with the return of a fork, in which the agent makes no call at this turn,
    observes "no result", and continues. Each fork samples completions until its end.
    """

    @property
    def rollout(self) -> Rollout:
        """G trajectories, and each of them without the calls of one completion."""
        return Calls()

    def incompatibility(self, env: TextDecPOMDP) -> str:
        """See `Credit`; an agent has to have tools."""
        if any(env.can_call(agent) for agent in env.possible_agents):
            return ""
        return f"credit is 'call', but no agent of {env.metadata['name']} has tools; use credit='joint'"

    def advantages(self, returns: Array) -> Array:
        """Subtract the mean of the other returns from each return, see `group_advantages`."""
        return group_advantages(returns, "leave_one_out")

    def samples(self, group: Group, gamma: float, advantages: Compare | None = None) -> Iterator[Sample]:
        """Return one sample per completion, by `counterfactual_advantages` if it has a fork, else by joint credit."""
        compare = advantages or self.advantages
        forked = {id(texts[0]) for decision in group.decisions for texts in decision.actions.values()}
        yield from (s for s in JointCredit().samples(group, gamma, compare) if id(s.completion) not in forked)
        if forked:
            yield from at_decisions(group, gamma, partial(counterfactual_advantages, kind=compare))
