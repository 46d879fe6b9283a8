"""Play the tasks of an evaluation, and measure what was played."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from ..agents.base import Policy, Sampling
from ..envs.base import TextDecPOMDP, first_rows
from ..rollout import independent
from ..types import Group
from .metrics import Summary, summarise
from .sections import measure
from .sections.influence import influence

MANY = 100  # episodes of a single task, which differ by chance alone


def default_samples(env: TextDecPOMDP) -> int:
    """Episodes per task of an evaluation that does not say it: `MANY` where there is a single task, else 1."""
    return MANY if len(env.items) == 1 else 1


def evaluate(
    policy: Policy,
    env: TextDecPOMDP,
    sampling: Sampling,
    seed: int,
    *,
    items: int | None = None,
    samples: int | None = None,
    keep: Callable[[Sequence[Group]], object] = lambda groups: None,
    done: Sequence[Group] = (),
    seconds: float = 0.0,
    agents: bool = False,
) -> tuple[list[Group], Summary]:
    """Independent episodes of the environment's tasks, and what they earned.

    Args:
        policy: Who plays.
        env: What is played, under the protocol of the policy.
        sampling: How texts are drawn.
        seed: Of the texts and of the environment's chance; with the tasks, all that they depend on.
        items: Number of tasks, from the first on; all when left out.
        samples: Episodes of each; left out, `default_samples`.
        keep: Is given the groups as they are played.
        done: The first groups, which an earlier process has played.
        seconds: Wall time that these took.
        agents: Also measure what each agent moves, which plays as many episodes again; see `influence`.
    """
    env = first_rows(env, items)
    groups = list(done)
    played_before = {group.item_id for group in done}
    started = time.perf_counter()
    samples = samples or default_samples(env)
    for played in independent(env, policy, sampling, seed, items, samples, played_before):
        keep(played)
        groups += played
    seconds += time.perf_counter() - started
    summary = summarise(groups, env.facts.score_scale, env.facts.components, seconds)
    measured = measure(env, groups)
    if agents and (moved := influence(policy, env, sampling, groups)):
        measured["influence"] = moved
    return groups, replace(summary, measured=measured)
