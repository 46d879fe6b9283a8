"""Runs whose batches are drawn with the weights of some updates before, and what they have to give."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

from models import Colourful, match, weights

from llm_dec_pomdp.agents.base import Sampling, Team
from llm_dec_pomdp.algorithms.magrpo import MAGRPO, MAGRPOConfig
from llm_dec_pomdp.seeding import derive
from llm_dec_pomdp.training import TrainerConfig, TrainingStep, restore, train
from llm_dec_pomdp.training.checkpoint import Checkpoints
from llm_dec_pomdp.training.loop import tasks_of_step
from llm_dec_pomdp.types import Episode

SAMPLING = Sampling(max_new_tokens=4)
OPTIONS = MAGRPOConfig(learning_rate=0.02, ratio="token")
STEPS, SEED = 4, 3


def texts_of(episodes: list[Episode]) -> list[str]:
    return [c.text for e in episodes for turn in e.turns for c in turn.actions.values()]


class Seen(MAGRPO):
    """Remembers what it was given."""

    def update(self, groups: Any) -> dict[str, float]:
        self.given = [*getattr(self, "given", []), texts_of([e for g in groups for e in g.episodes])]
        return super().update(groups)


def one_after_the_other(team: Team, k: int) -> tuple[list[list[str]], Any]:
    """What a run with staleness k says and learns, by the definition: batch n is drawn after max(0, n - 1 - k)."""
    learner, env, drawing = Seen(team, SAMPLING, OPTIONS), Colourful(match().items), copy.deepcopy(team)
    learner.expect(STEPS, stale=True)
    versions = [weights(team)]
    for n in range(1, STEPS + 1):
        for policy, state in zip(drawing.policies, versions[max(0, n - 1 - k)], strict=True):
            policy.load_state_dict(state)
        seeds = [derive(SEED, "rollout", n, i) for i in range(2)]
        ids = tasks_of_step(env, 2, n, SEED)
        learner.update(learner.rollout.play(env, drawing, ids, seeds, SAMPLING, 3))
        versions.append(weights(team))
    return learner.given, versions[-1]


def trained(team: Team, k: int, folder: Path | None = None) -> tuple[list[list[str]], Any, Any]:
    """Texts, weights, and metrics of a run, which goes on from what is in its folder."""
    learner, env, metrics = Seen(team, SAMPLING, OPTIONS), Colourful(match().items), list[dict[str, float]]()
    config = TrainerConfig(steps=STEPS, prompts_per_step=2, group_size=3, save_every=1, staleness=k)
    places = Checkpoints(folder, {}) if folder else None
    done = {"done": restore(learner, env, places)} if places else {}

    def note(step: TrainingStep) -> None:
        metrics.append(dict(step.metrics))

    train(learner, env, SAMPLING, config, SEED, note, checkpoints=places, **done)
    return learner.given, weights(team), metrics
