"""MAGRPO: Multi-Agent Group Relative Policy Optimization (arXiv:2508.04652), and GRPO as its one-agent case.

For each task, G joint trajectories are played with the current policies: at turn t, agent i samples a_{i,t}^(g) from
its own history h_{i,t}^(g), and the joint action earns the joint reward r_t^(g). With

    R_t^(g) = sum over tau >= t of gamma^(tau - t) r_tau^(g)                                                   (return)

all agents of a trajectory share the group-relative advantage

    A_t^(g) = (R_t^(g) - mean_g R_t) / std_g R_t                                                            (advantage)

and agent i ascends, over its own samples, the clipped objective of `updater`. These are the equations of the paper's
section on MAGRPO; the lines of code that implement them cite their names.

Departures from the paper, each an option:
* The ratio is per token, with a mean over all tokens of an agent (`ratio="token"`, common practice); "sequence" is as
  printed.
* beta is 0, as in the paper's experiments; the KL term is estimated by k3, per token.
* The mean runs over all trajectories of all groups of an update, and not group by group.
* G trajectories are continued side by side (`tree=False`); with `tree=True` every joint action branches again.
* An episode that ended earlier stays in the means of later turns with return 0, so that they are unbiased baselines.
* `pairing="cross"` and `credit="counterfactual"` are not in the paper: they separate what each agent contributed. At
  later turns counterfactual credit borrows texts that were said after other histories; the baseline stays unbiased.
  The continuation "frozen" takes no generation, and is biased where others would have reacted.
* `credit="message"` (C3, arXiv:2603.06859) is unbiased at every turn, and costs generations.
* Entropy bonus, minibatches and schedules are off by default and not in the paper.

| option | what is compared | joint rewards per task, one turn |
|---|---|---|
| aligned | joint trajectories of a group, turn by turn (in a tree: siblings) | G |
| cross | an agent's texts, each by its mean over the others' texts | G^n |
| counterfactual | an agent's texts beside the same texts of the others | up to G + n G (G - 1) |
| message | a text and K others from the same history, and silence | up to G + n G (K + 1) |
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from ..agents.base import Sampling, Team
from ..rollout import Counterfactual, Crossed, Messages, Rollout, Trajectories, Tree
from ..types import Group
from .advantages import Array, Kind, returns_of_group
from .base import Metrics
from .exchange import Compared
from .learner import PolicyLearner
from .options import MAGRPOConfig, MAREINFORCEConfig, MAREMAXConfig, MARLOOConfig
from .refusals import refuse_uncorrected
from .samples import (
    Sample,
    normalised,
    of_decisions,
    of_trajectories,
    refuse_bad_rewards,
    returns_of_decision,
    usable,
)

__all__ = ["GRPO", "MAGRPO", "MAGRPOConfig", "MAREINFORCE", "MARLOO", "MAREMAX"]


class MAGRPO(PolicyLearner):
    """Trains every trainable member of a team on its own samples with the joint, group-relative advantage."""

    Config = MAGRPOConfig
    config: MAGRPOConfig

    def __init__(self, team: Team, sampling: Sampling, config: MAGRPOConfig | None = None) -> None:
        super().__init__(team, sampling, config)
        refuse_uncorrected(team, self.config)

    @property
    def compared(self) -> Compared:
        """With what a return is compared; for its control, see `exchange`."""
        kinds: dict[str, Compared] = {"batch": "update", "raw": "nothing", "max": "nothing"}
        return kinds.get(self.config.advantage, "group")

    # --- credit: from the groups to samples with advantages -----------------------------------------------------------

    @classmethod
    def misfit(cls, config: Any, env: Any) -> str:
        """Crossed texts without a tree are for episodes of one turn."""
        if config.pairing == "cross" and not config.tree and env.max_turns > 1:
            return (
                f"pairing is 'cross', and episodes of {env.metadata['name']} have {env.max_turns} turns; set tree=true"
            )
        return ""

    @property
    def rollout(self) -> Rollout:  # type: ignore[override]  # follows from the options
        """How tasks are played for these options."""
        c = self.config
        if c.tree:
            return Tree(c.pairing)
        if c.pairing == "cross":
            return Crossed()
        if c.credit == "message":
            return Messages(c.continuation or "resampled", c.alternatives, c.silence, c.budget)
        return Counterfactual(c.continuation or "frozen") if c.credit == "counterfactual" else Trajectories()

    def returns(self, group: Group) -> list[Array]:
        """The returns that are compared: of trajectories by turn [G, T], or of joint actions [B] by decision point."""
        if not self.config.at_decisions:
            return [returns_of_group([episode.rewards for episode in group.episodes], self.config.gamma)]  # (return)
        return [returns_of_decision(decision, self.config.gamma) for decision in group.decisions]  # (return)

    def credit(self, group: Group) -> Iterator[Sample]:
        """Every text of a group with its advantage; with advantage="batch", with its return, as `samples` wants it."""
        kind: Kind = "raw" if self.config.advantage == "batch" else self.config.advantage
        if not self.config.at_decisions:
            return of_trajectories(group, self.returns(group), kind)
        return of_decisions(group, self.returns(group), kind, self.config.credit)

    def samples(self, groups: Sequence[Group]) -> list[Sample]:
        """Every text that the team can learn from, with its advantage; texts without a score are left out."""
        refuse_bad_rewards(groups, decisions=self.config.at_decisions)
        credited = [replace(s, group=place) for place, group in enumerate(groups) for s in self.credit(group)]
        if self.config.advantage == "batch":
            credited = normalised(credited)
        return usable(s for s in credited if s.agent in self.learning)

    # --- one update, from the groups to the weights -------------------------------------------------------------------

    def update(self, groups: Sequence[Group]) -> Metrics:
        """Give credit, and let every policy step on its own samples.

        Returns:
            What `Updater.step` returns, as means over the policies; what `diagnostics.describe` says of the texts; and
            what playing the groups cost, `generations` and `joint_rewards`.

        Raises:
            ValueError: A reward is infinite, the groups were not played by this learner's rollout, a text lacks
                log-probabilities, or the temperature is 0.
        """
        samples = self.samples(groups)
        return self.step(samples, groups) | self.report(samples, groups)


# --- relatives: the same objective, another baseline ------------------------------------------------------------------


class GRPO(MAGRPO):
    """MAGRPO with one agent, which writes all parts."""

    protocol = "centralized"


class MAREINFORCE(MAGRPO):
    """A = R: no baseline. Unbiased; every return other than 0 moves the weights, whatever the others earned."""

    Config = MAREINFORCEConfig


class MARLOO(MAGRPO):
    """A = R - mean of the others (arXiv:2402.14740): unbiased, in units of the reward."""

    Config = MARLOOConfig


class MAREMAX(MAGRPO):
    """A = R - max R: makes all but the best of a group less likely (ReMax, arXiv:2310.10505, takes the greedy text)."""

    Config = MAREMAXConfig
