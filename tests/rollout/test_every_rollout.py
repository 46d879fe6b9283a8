"""What holds for every way to play, and what a new one costs."""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from models import AGENTS, ITEMS, Recorder, match, softmax_team
from worth import ROLLOUTS, Colours, Echo, numbers, play

from llm_dec_pomdp.agents import Policy, RandomText, Sampling
from llm_dec_pomdp.algorithms.magrpo import MAGRPO
from llm_dec_pomdp.envs.wrappers import with_protocol
from llm_dec_pomdp.rollout import Counterfactual, Crossed, Messages, Rollout, Trajectories, Tree
from llm_dec_pomdp.training import TrainerConfig, TrainingStep, train
from llm_dec_pomdp.types import Completion, Group


@pytest.mark.parametrize("rollout", ROLLOUTS, ids=repr)
def test_playing_twice_gives_the_same(rollout: Rollout) -> None:
    def once() -> list[Group]:
        return play(numbers(), rollout, ids=["t1", "t2"], policy=RandomText())

    assert once() == once()


@pytest.mark.parametrize(
    ("rollout", "protocol"),
    [*((rollout, "parallel") for rollout in ROLLOUTS), (Tree(), "sequential"), (Crossed(), "centralized")],
    ids=repr,
)
def test_the_environment_stays_as_it_is(rollout: Rollout, protocol: str) -> None:
    env = with_protocol(numbers(), protocol)
    env.reset(seed=3, options={"task_id": "t4"})
    before = (env.state(), list(env.agents), env.turn)
    play(env, rollout)
    assert (env.state(), env.agents, env.turn) == before


@pytest.mark.parametrize("rollout", ROLLOUTS, ids=repr)
def test_nothing_to_play_is_no_group(rollout: Rollout) -> None:
    recorder = Recorder(Colours())
    assert play(numbers(), rollout, ids=[], policy=recorder) == []
    assert recorder.calls == []


@pytest.mark.parametrize(
    ("rollout", "protocol"),
    [
        *((rollout, "parallel") for rollout in ROLLOUTS),
        (Counterfactual("resampled"), "discussion"),
        (Messages(alternatives=2, silence=True), "discussion"),
        (Messages(silence=True), "sequential"),
    ],
    ids=repr,
)
def test_the_cost_of_a_group_is_what_was_asked_for_and_scored(rollout: Rollout, protocol: str) -> None:
    recorder, env = Recorder(Colours()), numbers(Echo, max_turns=1 if isinstance(rollout, Crossed) else 2)
    groups = play(with_protocol(env, protocol), rollout, 3, ["t1", "t2"], recorder)
    assert sum(g.cost.generations for g in groups) == sum(len(r.seeds) for call in recorder.calls for r in call)
    assert sum(g.cost.joint_rewards for g in groups) == len(env.judged) > 0


@pytest.mark.parametrize("rollout", [Crossed(), Tree(), Tree("cross")], ids=repr)
def test_the_first_texts_are_those_of_trajectories_side_by_side(rollout: Rollout) -> None:
    [plain] = play(numbers(), Trajectories())
    [group] = play(numbers(), rollout)
    wanted = {agent: tuple(e.turns[0].actions[agent] for e in plain.episodes) for agent in AGENTS}
    assert dict(group.decisions[0].actions) == wanted


def test_rollouts_are_values() -> None:
    assert [ROLLOUTS.index(rollout) for rollout in ROLLOUTS] == list(range(len(ROLLOUTS)))
    assert pickle.loads(pickle.dumps(ROLLOUTS)) == ROLLOUTS


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Trajectories("mine"), "'mine'"),  # type: ignore[arg-type]
        (lambda: Tree("crossed"), "'crossed'"),  # type: ignore[arg-type]
        (lambda: Counterfactual("none"), "'none'"),  # type: ignore[arg-type]
    ],
)
def test_a_word_that_does_not_exist_is_refused(make: Callable[[], Rollout], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        make()


# --- a new one --------------------------------------------------------------------------------------------------------


class Awakening(Policy):
    """Says the same to everybody at its first call, and colours of its own afterwards."""

    def __init__(self) -> None:
        self.calls = 0

    def generate(self, requests: Sequence[Any], sampling: Sampling) -> list[list[Completion]]:
        self.calls += 1
        if self.calls == 1:
            return [[Completion("red") for _ in r.seeds] for r in requests]
        return Colours().generate(requests, sampling)


def test_the_example_of_the_page_plays_again_what_all_earned_alike(example: Callable[[str], dict[str, Any]]) -> None:
    policy = Awakening()
    groups = play(numbers(), example("rollout")["UntilReturnsDiffer"](), ids=["t1", "t2"], policy=policy)
    assert [g.item_id for g in groups] == ["t1", "t2"]
    assert all(len({e.total for e in g.episodes}) > 1 for g in groups)
    assert policy.calls == 2


@pytest.mark.slow
def test_the_example_of_the_page_trains_and_wastes_fewer_groups(example: Callable[[str], dict[str, Any]]) -> None:
    sampling, steps = Sampling(max_new_tokens=1), list[TrainingStep]()
    config = TrainerConfig(steps=1, prompts_per_step=len(ITEMS), group_size=2)
    for kind in (MAGRPO, example("rollout")["Persistent"]):
        train(kind(softmax_team(), sampling), match(), sampling, config, 0, steps.append)
    plain, persistent = (step.metrics["groups_without_signal"] for step in steps)
    assert persistent < plain
