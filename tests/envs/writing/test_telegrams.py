"""telegrams-v0: its reward by hand, and its laws for every number of agents."""

from __future__ import annotations

import pytest

import llm_dec_pomdp
from llm_dec_pomdp.envs.wrappers import Centralized
from llm_dec_pomdp.types import TaskItem

POST = " ".join(f"word{i} the" for i in range(20))  # 20 content words
ITEM = TaskItem("a", POST)


def sent(*texts: str, post: str = POST) -> dict[str, float]:
    env = llm_dec_pomdp.make("telegrams-v0", tasks=[TaskItem("a", post)], n_agents=len(texts))
    score = env.score(env.items[0], {f"agent_{i}": text for i, text in enumerate(texts)})
    assert score.total == pytest.approx(sum(score.components.values()))
    return {**score.components, **score.diagnostics}


def words(*numbers: int) -> str:
    return " ".join(f"word{i}" for i in numbers)


@pytest.mark.parametrize(
    ("texts", "carried", "distinct"),
    [
        (("", ""), 0.0, 0.0),
        ((words(0, 1, 2), ""), 0.8 * 3 / 12, 0.2 * 3 / 12),
        ((words(0, 1, 2), words(3, 4, 5)), 0.8 * 6 / 12, 0.2 * 6 / 12),
        ((words(0, 1, 2), words(0, 1, 2)), 0.8 * 3 / 12, 0.2 * 3 / 12 * 3 / 6),
        ((words(0, 1, 2), words(2, 3)), 0.8 * 4 / 12, 0.2 * 4 / 12 * 4 / 5),
        ((words(*range(6)), words(*range(6, 12))), 0.8, 0.2),
        ((words(*range(10)), words(*range(10, 20))), 0.8, 0.2),
        ((words(0, 0, 0), "nothing of it, the the"), 0.8 * 1 / 12, 0.2 * 1 / 12),
        (("WORD1, word2!", ""), 0.8 * 2 / 12, 0.2 * 2 / 12),
    ],
)
def test_the_reward_by_hand(texts: tuple[str, ...], carried: float, distinct: float) -> None:
    found = sent(*texts)
    assert (found["carried"], found["distinct"]) == (pytest.approx(carried), pytest.approx(distinct))


def test_the_office_stops_after_12_words() -> None:
    assert sent(words(*range(20)), "")["words_carried"] == 12
    assert sent(f"{'no ' * 12} {words(1)}", "")["words_carried"] == 0


@pytest.mark.parametrize(("count", "goal"), [(1, 6), (2, 12), (3, 18), (4, 20), (8, 20)])
def test_the_goal_grows_with_the_senders_up_to_the_words_of_the_post(count: int, goal: int) -> None:
    assert sent(*[""] * count)["words_goal"] == goal


def test_words_said_by_several_are_counted_as_such() -> None:
    assert sent(words(1, 2, 3), words(2, 3), words(3))["words_twice"] == 2


def test_everyone_is_told_which_telegram_is_theirs() -> None:
    observations, _ = llm_dec_pomdp.make("telegrams-v0", n_agents=8).reset(seed=0)
    assert all(
        f"8 telegrams of 12 words each, and you write number {i + 1}." in o for i, o in enumerate(observations.values())
    )


def test_a_second_turn_tells_counts_and_no_words() -> None:
    env = llm_dec_pomdp.make("telegrams-v0", tasks=[ITEM], n_agents=2, max_turns=2)
    env.reset(seed=0)
    observations, _, _, _, _ = env.step({"agent_0": words(1, 2), "agent_1": words(2, 3)})
    assert set(observations.values()) == {
        "The telegrams carried 3 of 12 words, 1 of them more than once. Write the complete new version of yours."
    }


def test_one_agent_can_write_all_telegrams() -> None:
    env = llm_dec_pomdp.make("telegrams-v0", tasks=[ITEM], n_agents=3)
    alone = Centralized(env)
    alone.reset(seed=0)
    text = env.facts.join([words(*range(6)), words(*range(6, 12)), words(*range(12, 18))])
    _, rewards, _, _, _ = alone.step({"agent_0": text})
    assert rewards["agent_0"] == pytest.approx(1.0)
