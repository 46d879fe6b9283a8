"""`LearnedReward`: what it pays, and that all else stays the task's."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
from models import AGENTS, Softmax, match, softmax_team
from tasks import duo, references

import llm_dec_pomdp
from llm_dec_pomdp.agents import Sampling, Scripted
from llm_dec_pomdp.algorithms.magrpo import MAGRPO, MAGRPOConfig
from llm_dec_pomdp.envs.checks import CHECKS, check_env
from llm_dec_pomdp.envs.wrappers import LearnedReward, Sequential, Stopping, with_protocol
from llm_dec_pomdp.rollout import Trajectories
from llm_dec_pomdp.training import TrainerConfig, TrainingStep, train
from llm_dec_pomdp.types import Message

ONE_WORD = Sampling(max_new_tokens=1)


def letters(history: Sequence[Message], text: str) -> float:
    """More for longer texts, and for longer conversations."""
    return len(text) / 100 + len(history)


class Reader:
    """Keeps what it is asked, and pays 0.5."""

    def __init__(self) -> None:
        self.read: list[tuple[tuple[Message, ...], str]] = []

    def __call__(self, history: Sequence[Message], text: str) -> float:
        self.read.append((tuple(history), text))
        return 0.5


def texts_of(turn: int) -> dict[str, str]:
    return {agent: f"text {turn} of {agent}" for agent in AGENTS}


def test_it_reads_what_one_agent_that_writes_all_parts_is_told_and_says() -> None:
    reader = Reader()
    env = LearnedReward(duo(max_turns=3), reader)
    together = with_protocol(duo(max_turns=3), "centralized")
    env.reset(seed=0, options={"index": 1})
    together.reset(seed=0, options={"index": 1})
    for turn in range(3):
        text = together.facts.join(list(texts_of(turn).values()))
        asked = together.history("agent_0")
        env.step(texts_of(turn))
        together.step({"agent_0": text})
        assert reader.read[turn] == (asked, text)


def test_the_model_pays_and_the_score_stays_that_of_the_task() -> None:
    env = llm_dec_pomdp.make("tldr-v0", reward=letters)
    env.reset(seed=0, options={"index": 0})
    gold = references(env, env.item)
    _, rewards, _, _, infos = env.step(gold)
    paid = 1 + len(env.facts.join(list(gold.values()))) / 100
    assert rewards == dict.fromkeys(AGENTS, paid)
    assert env.last_score is not None
    assert env.last_score.total == env.facts.max_return
    assert infos["agent_0"]["diagnostic/learned"] == paid


@pytest.mark.slow
def test_it_keeps_the_laws() -> None:
    assert check_env(LearnedReward(duo(max_turns=2), letters)) == list(CHECKS)


def test_it_pays_once_per_turn_of_the_task_under_a_protocol_and_with_stops() -> None:
    reader = Reader()
    env = Sequential(LearnedReward(duo(), reader))
    [group] = Trajectories().play(env, Scripted(lambda agent, history: agent), [env.items[0].id], [0], ONE_WORD)
    assert group.episodes[0].rewards == (0.0, 0.5)
    stopped = LearnedReward(Stopping(duo(max_turns=3), 0.1), Reader())
    stopped.reset(seed=0)
    stopped.step(dict.fromkeys(AGENTS, "over <stop>"))
    assert not stopped.agents


def test_a_learner_takes_the_learnt_reward_and_is_measured_by_the_true_one() -> None:
    def blue(history: Sequence[Message], text: str) -> float:
        return float(text.count("blue"))

    team = softmax_team()
    steps: list[TrainingStep] = []
    env = LearnedReward(match(), blue)
    learner = MAGRPO(team, ONE_WORD, MAGRPOConfig(learning_rate=0.2))
    config = TrainerConfig(steps=30, prompts_per_step=2, group_size=8)
    train(learner, env, ONE_WORD, config, 0, steps.append)
    assert steps[-1].mean_return > 1.8
    assert steps[-1].return_percent > 80  # both say blue, and so the same colour
    assert all(p.logits.softmax(-1)[2] > 0.9 for p in team.policies if isinstance(p, Softmax))


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_damaged_model_stops_the_episode(value: float) -> None:
    env = LearnedReward(match(), lambda history, text: value)
    env.reset(seed=0)
    with pytest.raises(ValueError, match=f"match-v0/learned is {value}"):
        env.step(dict.fromkeys(AGENTS, "red"))


def test_what_cannot_be_paid_so_is_refused() -> None:
    with pytest.raises(TypeError, match="LearnedReward"):
        LearnedReward(Sequential(match()), letters)
    with pytest.raises(TypeError, match="match-v0 is 'rm'"):
        LearnedReward(match(), "rm")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="keys-v0"):
        llm_dec_pomdp.make("keys-v0", reward=letters)
