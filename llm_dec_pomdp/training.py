"""The training loop: choose tasks, play, check, learn, report.

Everything drawn has an address (`seeding.derive`), so an extra evaluation never shifts training, and a run with the
same seed on the same kind of machine is the same run.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from .agents.base import Sampling
from .algorithms.base import Learner, Planner
from .config import Config
from .envs.base import TextDecPOMDP
from .rollout import collect
from .seeding import derive, generator
from .types import Group, RolloutPlan

MAX_UNSCORABLE = 0.05  # share of a step's episodes that may have no score before the run stops
MAX_SKIPPED = 3  # steps in a row without a finite gradient before the run stops


class TrainingError(RuntimeError):
    """A run that cannot go on; the message says what happened and what to look at."""


class TrainerConfig(Config):
    """How long and how broadly to train."""

    steps: int = 40
    """Updates."""
    prompts_per_step: int = 8
    """Tasks per update."""
    group_size: int = 4
    """G: episodes per task; where a learner crosses texts or grows trees, texts per agent and decision point."""


@dataclass(frozen=True, slots=True)
class Step:
    """What one training step did.

    Attributes:
        number: From 1.
        mean_return: Of the scorable episodes, in units of the reward.
        components: Mean of the reward parts.
        metrics: What the learner reported.
        seconds_rollout: Wall time of playing and judging.
        seconds_update: Wall time of learning.
    """

    number: int
    mean_return: float
    components: Mapping[str, float]
    metrics: Mapping[str, float]
    seconds_rollout: float
    seconds_update: float


def train(
    learner: Learner,
    env: TextDecPOMDP,
    sampling: Sampling,
    config: TrainerConfig,
    seed: int,
    on_step: Callable[[Step], None] = lambda step: None,
) -> None:
    """Train a learner on all tasks of an environment, each epoch in a new order.

    Args:
        learner: Acts with its team, and learns from groups.
        env: The training environment, under the learner's protocol.
        sampling: How texts are drawn.
        config: Steps, tasks per step, group size.
        seed: The run's seed.
        on_step: Called after every step, for logs, progress and evaluation.

    Raises:
        TrainingError: More than 5 % of a step could not be scored, or three steps in a row had no finite gradient.
    """
    skipped = 0
    plan = learner.rollout if isinstance(learner, Planner) else RolloutPlan()
    for number in range(1, config.steps + 1):
        item_ids = tasks_of_step(env, config.prompts_per_step, number, seed)
        started = time.perf_counter()
        seeds = [derive(seed, "rollout", number, i) for i in range(len(item_ids))]
        groups = collect(env, learner.team, item_ids, seeds, sampling, config.group_size, plan)
        played = time.perf_counter()
        _check_rewards(groups, env, number)
        metrics = learner.update(groups)
        skipped = skipped + 1 if _not_finite(metrics) else 0
        if skipped == MAX_SKIPPED:
            raise TrainingError(
                f"step {number}: {skipped} steps in a row had a loss or gradient that is not finite ({metrics}); lower "
                "the learning rate or look at the last batches"
            )
        on_step(
            Step(
                number,
                *summarise(groups, env),
                metrics=metrics,
                seconds_rollout=played - started,
                seconds_update=time.perf_counter() - played,
            )
        )


def tasks_of_step(env: TextDecPOMDP, count: int, number: int, seed: int) -> list[str]:
    """The tasks of step `number` (from 1): the next `count` of an endless run of shuffled epochs."""
    size = len(env.items)
    chosen: list[str] = []
    for position in range((number - 1) * count, number * count):
        epoch, place = divmod(position, size)
        order = generator(seed, "epoch", epoch).permutation(size)
        chosen.append(env.items[int(order[place])].id)
    return chosen


def summarise(groups: Sequence[Group], env: TextDecPOMDP) -> tuple[float, dict[str, float]]:
    """Mean return and mean reward parts (of each episode's last scored turn) of the scorable episodes."""
    episodes = [e for group in groups for e in group.episodes if not math.isnan(e.total)]
    count = max(len(episodes), 1)
    final = [e.final for e in episodes]
    parts = {name: sum(s.components[name] for s in final if s is not None) / count for name in env.components}
    return sum(e.total for e in episodes) / count, parts


def _check_rewards(groups: Sequence[Group], env: TextDecPOMDP, number: int) -> None:
    """Every reward is in range, those of joint actions that were only tried too, and few are missing."""
    low, high = env.reward_range
    lost = total = 0
    for group in groups:
        scored = [turn.reward for e in group.episodes for turn in e.turns if turn.score is not None]
        tried = [r for decision in group.decisions for branch in decision.branches for r in branch.rewards]
        wrong = [r for r in scored if not (math.isnan(r) or low <= r <= high)]
        wrong += [r for r in tried if not (math.isnan(r) or min(low, 0.0) <= r <= max(high, 0.0))]  # 0: unscored turns
        if wrong:
            raise TrainingError(
                f"step {number}: task {group.item_id!r} paid {wrong[0]}, not in {env.reward_range}; mend the reward"
            )
        lost += sum(math.isnan(episode.total) for episode in group.episodes)
        total += len(group.episodes)
    if lost > MAX_UNSCORABLE * total:
        raise TrainingError(
            f"step {number}: {lost} of {total} episodes could not be scored (more than {MAX_UNSCORABLE:.0%}); "
            "the judge is failing: see the notes of their scores"
        )


def _not_finite(metrics: Mapping[str, float]) -> bool:
    return not all(math.isfinite(value) for value in metrics.values())
