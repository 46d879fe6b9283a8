"""Play the episodes of an evaluation and measure them."""

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

MANY = 100  # default number of episodes of a single task, which differ only by their random numbers


def default_samples(env: TextDecPOMDP) -> int:
    """Return the default number of episodes per task: `MANY` if there is a single task, else 1."""
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
    """Play independent episodes of the environment's tasks and summarise them.

    Args:
        policy: The policy of all agents.
        env: The environment, under the protocol of the policy.
        sampling: Sampling options of the completions.
        seed: Seed of completions and environment; with the tasks it determines the episodes.
        items: Number of tasks, from the first on; None: all.
        samples: Episodes per task; None: `default_samples`.
        keep: Is called with the groups as they are played.
        done: Groups that an earlier process has played; they come first.
        seconds: Wall time of the groups in `done`, in seconds.
        agents: Also measure the influence of each agent on the score, which doubles the number of episodes; see
            `influence`.

    Returns:
        The groups, one per task, and their summary.
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
