"""An algorithm that lets its team act in another way is trained and measured as it acts."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import pytest
from evaluated import last_episodes

from llm_dec_pomdp.agents import Policy, Request, Sampling, Team
from llm_dec_pomdp.algorithms.base import Algorithm
from llm_dec_pomdp.benchmarks.cell import run_cell
from llm_dec_pomdp.benchmarks.suite import MethodConfig, Suite
from llm_dec_pomdp.types import Completion, Group

SECONDS = 7.0
learnt_from: list[Group] = []


class Shouting(Policy):
    """Says what a team says, with a shout before it and slowly."""

    def __init__(self, team: Team) -> None:
        self.team = team

    def generate(self, requests: Sequence[Request], sampling: Sampling) -> list[list[Completion]]:
        answers = self.team.generate(requests, sampling)
        return [
            [dataclasses.replace(c, text=f"HEY {c.text}", seconds=SECONDS) for c in completions]
            for completions in answers
        ]


class Loud(Algorithm):
    """Learns nothing."""

    @property
    def policy(self) -> Policy:
        return Shouting(self.team)

    def update(self, groups: Sequence[Group]) -> dict[str, float]:
        learnt_from.extend(groups)
        return {}


@pytest.mark.slow
def test_training_evaluation_and_latency_are_those_of_the_policy(small: Suite, tmp_path: Path) -> None:
    methods = [MethodConfig(name=f"{__name__}:Loud")]
    suite = small.model_copy(update={"methods": methods, "environments": small.environments[:1]})
    [cell] = suite.cells()
    learnt_from.clear()
    result = run_cell(cell, tmp_path, tracking=())
    trained = [c.text for g in learnt_from for e in g.episodes for turn in e.turns for c in turn.actions.values()]
    measured = [c.text for e in last_episodes(tmp_path) for turn in e.turns for c in turn.actions.values()]
    assert len(trained) == 2 * 2 * 2 * 2  # steps, prompts, episodes, agents
    assert len(measured) == 2 * 2
    assert all(text.startswith("HEY ") for text in [*trained, *measured])
    assert result.summary.latency is not None
    assert result.summary.latency.mean == SECONDS
