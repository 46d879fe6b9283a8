"""Stepping many environments at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from .base import StepResult, TextDecPOMDP


def step_many(envs: Sequence[TextDecPOMDP], actions: Sequence[Mapping[str, str]]) -> list[StepResult]:
    """Step many environments, concurrently where their rewards come from another process.

    Where a language model judges, copies step first, so that it is asked about all texts at once.

    Args:
        envs: Environments with a running episode each.
        actions: One joint action per environment.
    """
    if len(envs) > 1 and any(env.facts.judges_code for env in envs):
        with ThreadPoolExecutor(max_workers=min(len(envs), 32)) as threads:
            futures = [threads.submit(env.step, action) for env, action in zip(envs, actions, strict=True)]
            return [future.result() for future in futures]
    if len(envs) > 1 and (judge := envs[0].facts.judge) is not None:
        with judge.put_off():
            for env, action in zip(envs, actions, strict=True):
                env.fork().step(action)
    return [env.step(action) for env, action in zip(envs, actions, strict=True)]
