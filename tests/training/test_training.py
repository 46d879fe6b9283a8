from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from models import AGENTS, ITEMS, Colourful, Match, Softmax, match, same, separate_team, softmax_team, weights

from llm_dec_pomdp.agents import Sampling, Scripted, Team
from llm_dec_pomdp.algorithms.base import Algorithm
from llm_dec_pomdp.algorithms.magrpo import MAGRPO, MAGRPOConfig
from llm_dec_pomdp.rollout import Counterfactual, Crossed, Trajectories, Tree
from llm_dec_pomdp.training.loop import (
    DivergedError,
    TrainerConfig,
    TrainingError,
    TrainingStep,
    _check_rewards,
    mean_scores,
    tasks_of_step,
    train,
)
from llm_dec_pomdp.types import Completion, Episode, Group, Score, TaskItem, Turn

SAMPLING = Sampling(max_new_tokens=4)
SIZE = len(ITEMS)


class Note(Algorithm):
    """A learner that learns nothing, remembers what it was given, and reports what it is told to."""

    def __init__(self, metrics: Sequence[Mapping[str, float]] = (), team: Team | None = None) -> None:
        super().__init__(team or Team(dict.fromkeys(AGENTS, Scripted(lambda agent, history: "red"))), SAMPLING)
        self.metrics = list(metrics)
        self.updates: list[Sequence[Group]] = []

    def update(self, groups: Sequence[Group]) -> dict[str, float]:
        self.updates.append(groups)
        return dict(self.metrics[len(self.updates) - 1]) if self.metrics else {"loss": 0.0}


def run(
    learner: Any, env: Any = None, seed: int = 0, on_step: Callable[[TrainingStep], None] | None = None, **options: int
) -> list[TrainingStep]:
    steps: list[TrainingStep] = []

    def note(step: TrainingStep) -> None:
        steps.append(step)
        if on_step is not None:
            on_step(step)

    config = TrainerConfig(**{"steps": 3, "prompts_per_step": 2, "group_size": 3, **options})
    train(learner, env or match(), SAMPLING, config, seed, note)
    return steps


# --- which tasks ------------------------------------------------------------------------------------------------------


def schedule(count: int, steps: int, seed: int = 0) -> list[str]:
    return [task for number in range(1, steps + 1) for task in tasks_of_step(match(), count, number, seed)]


@pytest.mark.parametrize("count", [1, 3, 7, 10])
def test_every_epoch_holds_every_task_once_in_an_order_of_its_own(count: int) -> None:
    tasks = schedule(count, steps=6 * SIZE)
    epochs = [tuple(tasks[start : start + SIZE]) for start in range(0, 6 * SIZE, SIZE)]
    names = [item.id for item in ITEMS]
    assert all(sorted(epoch) == sorted(names) for epoch in epochs)
    assert len({*epochs, tuple(schedule(SIZE, steps=1, seed=1)), tuple(names)}) == 8
    assert tasks[: 6 * SIZE] == schedule(SIZE, steps=6)  # whatever the size of a batch
    assert tasks_of_step(match(), 3, 5, 0) == schedule(3, steps=5)[12:]  # and whatever was asked before


def test_every_step_updates_once_with_whole_groups_of_the_schedule_and_is_reported_after_it() -> None:
    learner = Note()
    seen: list[tuple[int, int]] = []
    run(learner, seed=5, on_step=lambda step: seen.append((step.number, len(learner.updates))))
    assert seen == [(1, 1), (2, 2), (3, 3)]
    assert [[len(g.episodes) for g in groups] for groups in learner.updates] == [[3, 3]] * 3
    assert [[g.item_id for g in groups] for groups in learner.updates] == [
        tasks_of_step(match(), 2, number, 5) for number in (1, 2, 3)
    ]


# --- the loop ---------------------------------------------------------------------------------------------------------


def test_a_report_holds_what_the_learner_said_and_the_team_earned() -> None:
    [step] = run(Note([{"loss": 0.25}]), steps=1)
    assert step.metrics == {"loss": 0.25}
    assert step.mean_return == 1.0
    assert step.components == {"match": 1.0}
    assert step.seconds_rollout > 0
    assert step.seconds_update >= 0


def test_the_same_task_is_played_anew_in_the_next_epoch() -> None:
    learner = Note()
    run(learner, match(ITEMS[:2]))
    seeds = [e.seed for groups in learner.updates for g in groups for e in g.episodes]
    assert len(set(seeds)) == len(seeds) == 18


def test_a_learner_gets_what_its_rollout_plays() -> None:
    class Crossing(Note):
        rollout = Crossed()

    plain, crossing = Note(), Crossing()
    run(plain)
    steps = run(crossing)
    assert {(len(g.episodes), len(g.decisions)) for groups in plain.updates for g in groups} == {(3, 0)}
    assert {(len(g.episodes), len(g.decisions)) for groups in crossing.updates for g in groups} == {(9, 1)}
    assert [step.episodes for step in steps] == [2 * 9] * 3


def test_a_learner_that_reports_nothing_is_told_what_to_return() -> None:
    class Silent(Note):
        def update(self, groups: Sequence[Group]) -> Any:
            super().update(groups)

    with pytest.raises(TrainingError, match="Silent returned None"):
        run(Silent())


# --- guards -----------------------------------------------------------------------------------------------------------


class Fixed(Match):
    """TurnReward what a list says, episode by episode."""

    turn_reward: Sequence[float] = ()
    count: list[int]

    def score(self, item: TaskItem, actions: Mapping[str, str]) -> Score:
        self.count[0] += 1
        value = self.turn_reward[(self.count[0] - 1) % len(self.turn_reward)]
        return Score(value, {"match": value})


def fixed(*turn_reward: float, **kwargs: Any) -> Fixed:
    env = Fixed(ITEMS, **kwargs)
    env.turn_reward, env.count = turn_reward, [0]
    return env


@pytest.mark.parametrize("reward", [1.5, -math.inf])
def test_a_reward_out_of_range_stops_the_run_and_names_the_task(reward: float) -> None:
    [task] = tasks_of_step(match(), 1, 1, 0)
    learner = Note()
    with pytest.raises(TrainingError, match=rf"'{task}'.* {reward}"):
        run(learner, fixed(reward), prompts_per_step=1)
    assert learner.updates == []


def test_a_reward_at_the_edge_of_the_range_is_taken() -> None:
    assert [step.mean_return for step in run(Note(), fixed(0.0, 1.0), prompts_per_step=1, group_size=2)] == [0.5] * 3


def test_a_joint_action_that_was_only_tried_is_in_range_too() -> None:
    """The six that are played are paid as they should, the alternatives beside them are not."""

    class Comparing(Note):
        rollout = Counterfactual("frozen")

    env = fixed(*[0.5] * 6, *[1.5] * 60)
    with pytest.raises(TrainingError, match=r"reward 1\.5"):
        run(Comparing(team=softmax_team()), env, prompts_per_step=2, group_size=3)


def test_more_than_five_percent_without_a_score_stop_the_run() -> None:
    steps = run(Note(), fixed(math.nan, *[0.5] * 19), prompts_per_step=2, group_size=10, steps=2)
    assert [step.mean_return for step in steps] == [0.5, 0.5]
    learner = Note()
    with pytest.raises(TrainingError, match="2 of 20"):
        run(learner, fixed(math.nan, *[0.5] * 9), prompts_per_step=2, group_size=10)
    assert learner.updates == []


def test_branches_without_a_score_count_by_their_share() -> None:
    """One of 27 leaves, and half of the trajectories of one task in nine."""
    with pytest.raises(TrainingError, match="step 7: 1 of 27"):
        _check_rewards([tree(math.nan), *[tree(0.0)] * 8], match().facts.reward_range, 7)
    _check_rewards([tree(math.nan), *[tree(0.0)] * 9], match().facts.reward_range, 7)


BAD = {"loss": math.nan}
GOOD = {"loss": 0.1}


@pytest.mark.parametrize("bad", [BAD, {"loss": 0.0, "grad_norm": math.inf}], ids=str)
def test_three_steps_in_a_row_without_a_finite_gradient_stop_the_run(bad: dict[str, float]) -> None:
    learner = Note([GOOD, bad, bad, bad, GOOD])
    with pytest.raises(TrainingError, match="step 4"):
        run(learner, steps=5)
    assert len(learner.updates) == 4
    assert len(run(Note([bad, bad, GOOD, bad, bad, GOOD]), steps=6)) == 6


def test_steps_without_anything_to_learn_do_not_stop_the_run() -> None:
    """All rewards are equal: nothing to learn, and no accident."""
    team = softmax_team()
    assert len(run(MAGRPO(team, SAMPLING), fixed(0.5), steps=5)) == 5


def test_a_model_whose_weights_are_not_finite_stops_the_run() -> None:
    """It says the same everywhere, so that nothing is to be learnt and no gradient would tell."""
    team = Team({"agent_0": Softmax(), "agent_1": Softmax(logits=[math.nan] * 4)})
    with pytest.raises(DivergedError, match=r"step 1: .* agent_1 on task 't.' has a log-probability"):
        run(MAGRPO(team, SAMPLING))


# --- means ------------------------------------------------------------------------------------------------------------


def played(*rewards: float) -> Episode:
    turns = tuple(Turn({}, {}, r, Score(r, {"match": r})) for r in rewards)
    return Episode("t", 0, turns, terminated=False)


def tree(reward_of_the_short_one: float) -> Group:
    """A branch that ends at once, and one that branches again."""
    short = dataclasses.replace(played(reward_of_the_short_one), share=0.5)
    return Group("t", (short, *(dataclasses.replace(played(0.0, 1.0), share=0.25) for _ in range(2))))


DRAFT = Turn({}, {"agent_0": Completion("x")}, 0.0)


@pytest.mark.parametrize(
    ("groups", "mean", "last"),
    [
        ([Group("t", (played(1.0), played(math.nan))), Group("t", (played(0.5),))], 0.75, 0.75),
        ([Group("t", (played(math.nan),))], 0.0, 0.0),
        ([Group("t", (played(1.0, 0.5),))], 1.5, 0.5),
        ([Group("t", (Episode("t", 0, (*played(1.0).turns, DRAFT), True),))], 1.0, 1.0),
        ([tree(0.0)], 0.5, 0.5),
        ([tree(math.nan)], 1.0, 1.0),
    ],
    ids=["without a score", "none scored", "several turns", "an unscored phase", "an early end", "and it unscored"],
)
def test_the_mean_return_and_what_was_scored_last(groups: list[Group], mean: float, last: float) -> None:
    """What could not be scored is left out; a branch that ends early stands for all that it might have had."""
    assert mean_scores(groups, match()) == (mean, 100 * last, {"match": last})


@pytest.mark.slow
def test_the_mean_return_of_trees_is_that_of_trajectories() -> None:
    """The right colour ends an episode; a plain mean over the leaves is a quarter too low."""
    team, env = softmax_team(), match(max_turns=2)
    plain = mean_scores(Trajectories().play(env, team, [ITEMS[0].id], [0], SAMPLING, 1000), env)[0]
    seeds = range(1, 101)
    trees = Tree().play(env, team, [ITEMS[0].id] * len(seeds), seeds, SAMPLING, 4)
    assert mean_scores(trees, env)[0] == pytest.approx(plain, abs=0.06)


# --- the same run -----------------------------------------------------------------------------------------------------


def report(steps: Sequence[TrainingStep]) -> list[Any]:
    """All of it but the wall time."""
    return [dataclasses.replace(step, seconds_rollout=0.0, seconds_update=0.0) for step in steps]


def learn(
    seed: int = 0, on_step: Callable[[Team, TrainingStep], None] = lambda team, step: None
) -> tuple[list[Any], Any]:
    """Train two small language models that are paid for every colour they both start with."""
    team = separate_team(seed=3)
    learner = MAGRPO(team, SAMPLING, MAGRPOConfig(learning_rate=0.01))
    steps = run(learner, Colourful(ITEMS), seed, lambda step: on_step(team, step), steps=4, group_size=6)
    return report(steps), weights(team)


def test_the_same_seed_gives_the_same_run_bit_for_bit_with_an_evaluation_in_between_or_not() -> None:
    evaluated: list[int] = []

    def evaluate(team: Team, step: TrainingStep) -> None:
        groups = Trajectories().play(Colourful(ITEMS), team, ["t0", "t1"], [1, 2], SAMPLING, width=2)
        evaluated.append(len(groups))

    plain, watched, other = learn(), learn(on_step=evaluate), learn(seed=1)
    assert evaluated == [2] * 4
    assert plain[0] == watched[0] != other[0]
    assert same(plain[1], watched[1])
    assert not same(plain[1], other[1])
    assert all(step.metrics["skipped"] == 0 for step in plain[0])
    assert not same(plain[1], weights(separate_team(seed=3)))
