"""Learning over several turns: solving at once pays, and no later turn is forgotten."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from models import AGENTS, ITEMS, Match, Softmax

import llm_dec_pomdp
from llm_dec_pomdp.agents import Sampling, Team
from llm_dec_pomdp.algorithms.magrpo import MAGRPO, MAGRPOConfig
from llm_dec_pomdp.envs.turn_rewards import RULES
from llm_dec_pomdp.training import TrainerConfig, train
from llm_dec_pomdp.types import Completion, Episode, Group, Score, TaskItem, Turn

ONE_WORD = Sampling(max_new_tokens=1)
EASY = 1.678  # the logit of the right word with which both say it in 0.71 of all turns


class Answer(Match):
    """Solved when both say "right", and worth 2.5 of 4 otherwise."""

    declared = replace(Match.declared, score_range=(0.0, 4.0))

    def score(self, item: TaskItem, actions: Mapping[str, str]) -> Score:
        value = 4.0 if set(actions.values()) == {"right"} else 2.5
        return Score(value, {"match": value})


def trained(turn_reward: Any, **options: Any) -> Team:
    team = Team({agent: Softmax(("right", "wrong"), logits=(EASY, 0.0)) for agent in AGENTS})
    learner = MAGRPO(team, ONE_WORD, MAGRPOConfig(learning_rate=0.15, **options))
    env = Answer(ITEMS, max_turns=2, turn_reward=turn_reward)
    train(learner, env, ONE_WORD, TrainerConfig(steps=60, prompts_per_step=4, group_size=4), 0)
    return team


def log_odds(team: Team) -> list[float]:
    """Of the right word, for each agent."""
    return [float(logits[0] - logits[1]) for logits in (policy.state_dict()["logits"] for policy in team.trainable)]


# --- solving at once --------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("gamma", [1.0, pytest.param(0.9, marks=pytest.mark.slow)])
@pytest.mark.parametrize("turn_reward", RULES)
def test_two_tables_learn_to_solve(turn_reward: str, gamma: float) -> None:
    solves = math.prod(1 / (1 + math.exp(-odds)) for odds in log_odds(trained(turn_reward, gamma=gamma)))
    assert solves > 0.95


PROBLEM = TaskItem(
    "double/plus_one",
    'def f(x):\n    """Twice x, plus one."""\n',
    split="train",
    fields={"entry_point": "f", "test": "def check(f):\n    assert f(1) == 3\n    assert f(4) == 9\n"},
)
HELPER = "def aux(x):\n    return 2 * x"
WITH_IT, WITHOUT_IT = "def f(x):\n    y = aux(x)\n    return y + 1", "def f(x):\n    return 2 * x + 1"


@pytest.mark.parametrize("turn_reward", RULES)
def test_the_program_that_solves_at_once_has_the_highest_advantage(turn_reward: Any) -> None:
    """Against three that earn 2.5 of 4 twice, whose rewards sum to more where every turn is paid in full."""
    env = llm_dec_pomdp.make("coophumaneval-v0", tasks=[PROBLEM], split="all", max_turns=2, turn_reward=turn_reward)

    def played(number: int, main: str) -> Episode:
        env.reset(options={"index": 0})
        turns: list[Turn] = []
        while env.agents:
            completions = {
                agent: Completion(text, (0,), (number,)) for agent, text in zip(AGENTS, (HELPER, main), strict=True)
            }
            rewards = env.step({agent: completion.text for agent, completion in completions.items()})[1]
            turns.append(Turn(dict.fromkeys(AGENTS, "?"), completions, rewards["agent_0"], env.last_score))
        return Episode(PROBLEM.id, number, tuple(turns), terminated=len(turns) == 1)

    episodes = [played(0, WITH_IT), *(played(number, WITHOUT_IT) for number in (1, 2, 3))]
    assert [[turn.score.total for turn in e.turns if turn.score] for e in episodes] == [[4.0], *[[2.5, 2.5]] * 3]
    learner = MAGRPO(Team({agent: Softmax() for agent in AGENTS}), ONE_WORD)
    first = [s.advantage for s in learner.samples([Group(PROBLEM.id, tuple(episodes))]) if s.agent == "agent_0"][:4]
    assert first == pytest.approx([math.sqrt(3), *[-1 / math.sqrt(3)] * 3])


# --- later turns of groups from which episodes are gone ---------------------------------------------------------------


ENDED, LOW, HIGH = (0.0,), (0.0, 1.0), (0.0, 3.0)  # rewards: over at the first turn, or one of two words at the second
P_HIGH = 0.4  # of the better word


def recorded(rewards: Sequence[float]) -> Episode:
    """The better word is token 1, and so is the word of the first turn."""
    turns = [Turn({"a": "?"}, {"a": Completion(f"turn {t}", (0,), (int(r != 1.0),))}, r) for t, r in enumerate(rewards)]
    return Episode("t", 0, tuple(turns), terminated=len(rewards) == 1)


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("survival", [0.24, 0.70, 0.91])
def test_the_leave_one_out_gradient_of_a_later_turn_is_the_exact_one(survival: float, size: int) -> None:
    """Of the better word's logit, over all groups that may be drawn, each by its probability."""
    chances = {ENDED: 1 - survival, LOW: survival * (1 - P_HIGH), HIGH: survival * P_HIGH}
    learner = MAGRPO(Team({"a": Softmax()}), ONE_WORD, MAGRPOConfig(advantage="leave_one_out"))
    estimated = 0.0
    for group in itertools.product(chances, repeat=size):
        for s in learner.samples([Group("t", tuple(map(recorded, group)))]):
            if s.completion.text == "turn 1":
                score = s.completion.token_ids[0] - P_HIGH  # d log p / d logit
                estimated += math.prod(chances[word] for word in group) * s.advantage * score / size
    assert estimated == pytest.approx(survival * P_HIGH * (1 - P_HIGH) * (3.0 - 1.0))
