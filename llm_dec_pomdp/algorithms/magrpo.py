"""MAGRPO: Multi-Agent Group Relative Policy Optimization (arXiv:2508.04652), and GRPO as its one-agent case.

For each task, G joint trajectories are played with the current policies: at turn t, agent i samples a_{i,t}^(g) from
its own history h_{i,t}^(g), and the joint action receives the joint reward r_t^(g). With

    R_t^(g) = sum over tau >= t of gamma^(tau - t) r_tau^(g)                                                   (return)

all agents of a trajectory share the group-relative advantage

    A_t^(g) = (R_t^(g) - mean_g R_t) / std_g R_t                                                            (advantage)

and agent i ascends, over its own samples, the clipped objective of `updater`. These are the equations of the paper's
section on MAGRPO; the lines of code that implement them cite their names.

Departures from the paper (docs/reproduce.md has those of the suite `paper` too):
* The ratio is per token, with a mean over all tokens of an agent (`ratio="token"`, common practice); "sequence" is as
  printed.
* beta is 0, as in the paper's experiments; the KL term is estimated by k3, per token.
* The mean runs over all trajectories of all groups of an update, and not group by group.
* An episode that ended earlier stays in the means of later turns with return 0, so that they are unbiased baselines.
* Credit assignment is an object, see `credit`. The paper's is `JointCredit`, with independent trajectories or a tree.
* Entropy bonus, minibatches and schedules are off by default and not in the paper.

| credit | comparison | joint rewards per task, one turn |
|---|---|---|
| joint | joint trajectories of a group, turn by turn (in a tree: siblings) | G |
| crossed | an agent's completions, each by its mean return over the teammates' completions | G^n |
| counterfactual | an agent's completions, with the same completions of the teammates | up to G + n G (G - 1) |
| message | a completion, K alternatives from the same history, and the empty text | up to G + n G (K + 1) |
| call | a completion of an agent with tools, and a turn without a call; other agents as in joint | up to G + n G |

MARLOO, MAREINFORCE, MAREMAX and GRPO are names in `registration` for another baseline or a single agent.

Read `update` and `samples`. Then `credit/joint.py` and `advantages.py` compute advantages, and `updater.py` updates the
weights. `examples/magrpo_in_one_file.py` has the same algorithm in one file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..agents.base import Sampling, Team
from ..rollout import Rollout
from ..rollout.replaced import Replaced
from ..types import Group, all_played
from .advantages import Array
from .base import Metrics
from .checks import check_importance
from .controls import BaselineScope
from .learner import PolicyLearner, first_seed
from .options import MAGRPOConfig
from .overlong import punished
from .samples import Sample, check_rewards, usable
from .updater import step_updaters

__all__ = ["MAGRPO", "MAGRPOConfig"]


class MAGRPO(PolicyLearner):
    """Group-relative policy optimization: trains each policy of a team on its own samples.

    Attributes:
        baselines: With advantage = "role", the exponential mean of each agent's returns.
    """

    Config = MAGRPOConfig
    config: MAGRPOConfig

    def __init__(self, team: Team, sampling: Sampling, config: MAGRPOConfig | None = None) -> None:
        super().__init__(team, sampling, config)
        check_importance(team, self.config)
        self.baselines: dict[str, float] = {}

    @property
    def rollout(self) -> Rollout:
        """The rollout of the credit; with `replacements`, groups without signal are replaced by other tasks."""
        credit = self.config.credit
        return Replaced(credit.rollout, self.silent, credit.replacements) if credit.replacements else credit.rollout

    @property
    def baseline_scope(self) -> BaselineScope:
        """The returns that the baseline of the credit is computed from, see `controls`."""
        return self.config.credit.baseline_scope

    @classmethod
    def incompatibility(cls, config: Any, env: Any) -> str:
        """Return the reason why the credit or an option of `advantages` cannot be used on this environment, else ""."""
        chosen = getattr(config.credit, "advantage", "std")
        if cls.advantages is not MAGRPO.advantages and chosen != "std":
            return f"advantage is {chosen!r}, but {cls.__name__} computes advantages itself; leave the option out"
        return super().incompatibility(config, env) or config.credit.incompatibility(env)

    def update(self, groups: Sequence[Group]) -> Metrics:
        """Compute advantages, and run a step of every policy on its own samples.

        Returns:
            Means of the metrics of `Updater.step` over the policies; and over all sampled groups, replaced ones
            included, the metrics of `diagnostics.describe` and the costs `generations` and `joint_rewards`. With
            `replacements` also `groups_replaced`, the share of these groups that was replaced.

        Raises:
            ValueError: A reward is infinite, the groups were not played by this learner's rollout, a completion lacks
                log-probabilities, or the temperature is 0.
        """
        credit, played = self.config.credit, all_played(groups)
        samples = self.samples(played)
        with_signal = {s.group for s in samples if s.advantage}
        counted = with_signal if credit.without_signal == "drop" else range(len(groups))  # replaced ones come last
        kept = [s for s in samples if s.group in counted]
        metrics = step_updaters(self.updaters, kept, first_seed(groups))  # (objective), see `updater`
        metrics |= self.report([*kept, *(s for s in samples if s.group not in counted)], played)
        if credit.replacements:
            metrics["groups_replaced"] = (len(played) - len(groups)) / len(played) if played else 0.0
        return metrics

    def samples(self, groups: Sequence[Group]) -> list[Sample]:
        """Return every completion to train on with its advantage; completions without a score are left out.

        With advantage = "role", `baselines` then include the returns of these groups.
        """
        check_rewards(groups)
        c = self.config
        if c.overlong:
            groups = [punished(group, self._limits(group), c.overlong, c.overlong_penalty) for group in groups]
        credited = [
            replace(s, group=place)
            for place, group in enumerate(groups)
            for s in self.credit(group)
            if s.agent != group.partner
        ]
        return usable(s for s in c.credit.over_update(credited, self.baselines) if s.agent in self.learning)

    def _limits(self, group: Group) -> dict[str, int]:
        """Return the token limit of each agent in a group, as `Team.generate` and the rollouts apply it."""
        sampling = self.sampling.for_parts(group.parts_per_action)
        return {agent: self.team.sampling_of(agent, sampling).max_new_tokens for agent in self.team.members}

    def silent(self, group: Group) -> bool:
        """Return whether a group has no signal: no completion in it has an advantage."""
        return not any(s.advantage for s in self.samples([group]))

    def credit(self, group: Group) -> Iterator[Sample]:
        """Return every completion of a group with its advantage, by (return) and (advantage) of the credit."""
        return self.config.credit.samples(group, self.config.gamma, self.advantages)

    def advantages(self, returns: Array) -> Array:
        """Return the advantages of returns that are compared with each other; override it for another baseline.

            def advantages(self, returns):
                return returns - np.median(returns)

        It is called with unscaled returns, for each comparison that the credit makes:

        | credit | returns |
        |---|---|
        | joint | R_t^(g) of the trajectories of a group at turn t, for an agent; in a tree, of sibling joint actions |
        | crossed | of each completion of an agent, the mean over the completions of its teammates |
        | counterfactual, message, call | of a completion and its alternatives, with teammates held fixed |

        Args:
            returns: [N], N at most the group size (with message: 1 + alternatives). Returns that could not be scored
                are left out.

        Returns:
            An advantage for each return, [N].
        """
        return self.config.credit.advantages(returns)

    def state_dict(self) -> dict[str, Any]:
        """Return the states of the updaters, and the baselines if there are any."""
        return super().state_dict() | ({"baselines": dict(self.baselines)} if self.baselines else {})

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the state that `state_dict` returned."""
        super().load_state_dict(state)
        self.baselines = dict(state.get("baselines", {}))
