"""Training on scores from an LLM judge that compares episodes, in place of the reward of the environment.

The judge compares the episodes of a group with each other (`agents.principles`). Equal transcripts are compared once.
The score of an episode, in [0, 1], replaces its rewards: it is the reward of the last turn, and all earlier turns have
the reward 0. If all transcripts of a group are equal, every episode has the score 0.5 and the judge is not called.

Every learner of whole episodes with a joint reward can train on it. `madpo` pairs episodes by these returns. The scores
of the environment remain, so evaluations and `return_percent` measure the environment's own return.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..agents.base import Policy, Sampling
from ..agents.principles import NEUTRAL, ComparingJudge, Comparison
from ..algorithms.base import Algorithm, LearnerWrapper, Metrics
from ..algorithms.staged import Staged
from ..config import ConfigError
from ..envs.base import TextDecPOMDP
from ..rollout import Demonstrations, Preferences, Rollout, Trajectories
from ..rollout.transcripts import transcript
from ..seeding import derive
from ..types import Episode, Group
from .partners import Partnered, WithPartners


class WithJudge(LearnerWrapper):
    """A learner whose rewards come from a judge.

    Args:
        learner: The learner, with partners if it has any.
        judge: The judge.

    Raises:
        ConfigError: No stage of the learner plays whole episodes, or a stage tries alternatives at decision points.
    """

    def __init__(self, learner: Algorithm, judge: ComparingJudge) -> None:
        super().__init__(learner)
        self.judge = judge
        inner = learner.learner if isinstance(learner, WithPartners) else learner
        rollouts = [stage.learner.rollout for stage in inner.stages] if isinstance(inner, Staged) else [inner.rollout]
        if other := next((r for r in rollouts if not isinstance(r, (Trajectories, Demonstrations, Preferences))), None):
            raise ConfigError(
                f"a judge compares whole episodes, but {type(inner).__name__} plays {type(other).__name__}; leave out "
                "judge, or the options tree and replacements and every credit except joint"
            )
        if not any(isinstance(rollout, Trajectories) for rollout in rollouts):
            raise ConfigError(
                f"{type(inner).__name__} is trained on given texts, which a judge does not score in training; leave "
                "judge out, or write a file of pairs first: llm-dec-pomdp label RUN --judge principles:FILE"
            )

    @property
    def rollout(self) -> Rollout:
        """The rollout of the learner, with the rewards of the judge, except in a stage that trains on given texts."""
        inner = self.learner.rollout
        return Judged(inner, self.judge) if isinstance(inner, (Trajectories, Partnered)) else inner

    def update(self, groups: Sequence[Group]) -> Metrics:
        """Run an update of the learner; also return the metrics of the judge, see `PrincipleJudge.measured`."""
        return {**self.learner.update(groups), **self.judge.measured()}

    def check_compatible(self, env: TextDecPOMDP) -> None:
        """See `Algorithm` and `check_judged`."""
        self.learner.check_compatible(env)
        check_judged(env)

    def reward_range(self, env: TextDecPOMDP) -> tuple[float, float]:
        """Return the range of the scores of a judge, and of the environment in stages without the judge."""
        low, high = super().reward_range(env)
        return min(low, 0.0), max(high, 1.0)


def check_judged(env: TextDecPOMDP, group_size: int = 2) -> None:
    """Raise ConfigError for individual rewards, which a judgement of the team cannot replace, and for groups of one."""
    if group_size < 2:
        raise ConfigError(
            f"group_size is {group_size}, but judge compares the episodes of a group; give 2 or more (--group-size)"
        )
    if not env.facts.joint_reward:
        raise ConfigError(
            f"judge compares what a team has written together, but {env.metadata['name']} has individual rewards; "
            "leave judge out, or choose an environment with a joint reward"
        )


@dataclass(frozen=True, slots=True)
class Judged:
    """Another rollout, whose episodes have the scores of a judge as rewards.

    Attributes:
        inner: The rollout that plays the groups.
        judge: The judge.
    """

    inner: Rollout
    judge: ComparingJudge

    def play(
        self,
        env: TextDecPOMDP,
        policy: Policy,
        item_ids: Sequence[str],
        seeds: Sequence[int],
        sampling: Sampling,
        width: int = 1,
    ) -> list[Group]:
        """Play every task; see `Rollout`. The LLM judge scores all groups in one call."""
        groups = self.inner.play(env, policy, item_ids, seeds, sampling, width)
        written = [[transcript(episode, group.roles) for episode in group.episodes] for group in groups]
        compared: dict[int, Comparison] = {}
        for place, (texts, seed) in enumerate(zip(written, seeds, strict=True)):
            distinct = tuple(dict.fromkeys(text for _, text in texts))
            if len(distinct) > 1:
                compared[place] = Comparison(texts[0][0], distinct, derive(seed, "judged"))
        scores = dict(zip(compared, self.judge.scores(list(compared.values())), strict=True))
        judged: list[Group] = []
        for place, (group, texts) in enumerate(zip(groups, written, strict=True)):
            known = dict(zip(compared[place].texts, scores[place], strict=True)) if place in compared else {}
            rewarded = [
                _rewarded(e, known.get(text, NEUTRAL)) for e, (_, text) in zip(group.episodes, texts, strict=True)
            ]
            judged.append(replace(group, episodes=tuple(rewarded)))
        return judged


def _rewarded(episode: Episode, score: float) -> Episode:
    """Return an episode with a score as the reward of its last turn, and 0 before."""
    *earlier, last = [replace(turn, reward=0.0, rewards={}) for turn in episode.turns]
    return replace(episode, turns=(*earlier, replace(last, reward=score)))
