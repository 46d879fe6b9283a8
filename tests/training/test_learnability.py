"""Tasks sampled by learnability: their shares, the scores of groups, a resume bit for bit, and what is refused."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from models import ITEMS, match, softmax_team

from llm_dec_pomdp import make
from llm_dec_pomdp.agents import Sampling
from llm_dec_pomdp.algorithms.magrpo import MAGRPO, MAGRPOConfig
from llm_dec_pomdp.config import ConfigError
from llm_dec_pomdp.training import TrainerConfig, restore, train
from llm_dec_pomdp.training.checkpoint import Checkpoints
from llm_dec_pomdp.training.learnability import learnability, sample_by_learnability
from llm_dec_pomdp.training.loop import tasks_of_step
from llm_dec_pomdp.types import Completion, Episode, Group, Turn

NAMES = [item.id for item in ITEMS]


def group(*returns: float, shares: tuple[float, ...] = (), **rewards: tuple[float, ...]) -> Group:
    """Episodes of one turn; `rewards` are individual rewards by agent."""
    episodes = [
        Episode(
            "t0",
            place,
            (Turn({}, {"a": Completion("")}, value, rewards={agent: own[place] for agent, own in rewards.items()}),),
            terminated=True,
            share=shares[place] if shares else 1.0,
        )
        for place, value in enumerate(returns)
    ]
    return Group("t0", tuple(episodes))


@pytest.mark.parametrize(
    ("episodes", "score"),
    [
        (group(1, 1, 1, 0), 3 / 16),  # p (1 - p)
        (group(1, 1), 0),
        (group(1, 0, float("nan")), 1 / 4),
        (group(1, float("nan")), 0),
        (group(1, 0, shares=(0.75, 0.25)), 3 / 16),
        (group(0, 0, a=(1, -1), b=(-1, 1)), 1),  # the returns of a zero-sum game vary by agent
    ],
)
def test_the_score_is_the_variance_of_the_returns(episodes: Group, score: float) -> None:
    assert learnability(episodes) == pytest.approx(score)


def test_tasks_are_replaced_with_the_given_probability_in_proportion_to_their_scores() -> None:
    plain, scores = [NAMES[0]] * 1000, {NAMES[1]: 0.25, NAMES[2]: 0.75, NAMES[3]: 0.0, "of another stage": 9.0}
    found = Counter(sample_by_learnability(match(), plain, scores, 0.5, seed=1))
    assert found.keys() == {NAMES[0], NAMES[1], NAMES[2]}
    assert found[NAMES[0]] == pytest.approx(500, abs=60)
    assert found[NAMES[2]] == pytest.approx(3 * found[NAMES[1]], rel=0.25)


def test_without_a_score_the_tasks_are_those_of_the_epochs() -> None:
    wanted = tasks_of_step(match(), 3, 1, 0)
    assert sample_by_learnability(match(), wanted, {NAMES[0]: 0.0}, 0.9, seed=1) == wanted


class Seen(MAGRPO):
    """Remembers the tasks of each update."""

    def update(self, groups: Any) -> dict[str, float]:
        self.seen = [*getattr(self, "seen", []), [group.item_id for group in groups]]
        return super().update(groups)


def tasks(steps: int, share: float, folder: Path) -> list[list[str]]:
    """Return the tasks of each update up to `steps`, resumed from the folder."""
    learner = Seen(softmax_team(), Sampling(max_new_tokens=1), MAGRPOConfig(learning_rate=0.5))
    config = TrainerConfig(steps=steps, prompts_per_step=3, group_size=3, save_every=1, learnability=share)
    places = Checkpoints(folder, {})
    done = restore(learner, match(), places)
    train(learner, match(), learner.sampling, config, 0, checkpoints=places, done=done)
    return learner.seen


def test_a_resumed_run_has_the_same_tasks(tmp_path: Path) -> None:
    whole = tasks(6, 0.8, tmp_path / "whole")
    assert tasks(3, 0.8, tmp_path / "parts") + tasks(6, 0.8, tmp_path / "parts") == whole
    assert whole != tasks(6, 0.0, tmp_path / "uniform")
    assert whole[0] == tasks_of_step(match(), 3, 1, 0)  # no task has a score before the first update


def test_streams_and_batches_sampled_ahead_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="staleness is 1"):
        TrainerConfig(learnability=0.5, staleness=1)
    learner = MAGRPO(softmax_team(), Sampling(max_new_tokens=1), MAGRPOConfig())
    (tmp_path / "rows.jsonl").write_text('{"prompt": "A post."}\n', encoding="utf-8")
    stream = make("tldr-v0", tasks=str(tmp_path / "rows.jsonl"), streaming=True)
    with pytest.raises(ConfigError, match=r"learnability is 0\.5"):
        train(learner, stream, learner.sampling, TrainerConfig(learnability=0.5), 0)
