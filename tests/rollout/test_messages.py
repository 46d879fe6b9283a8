"""Messages and what might have been said in their place: which texts, what follows them, and what it may cost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from worth import Colours, Deaf, Echo, numbers, play, texts_of, value

from llm_dec_pomdp.agents import Sampling, Scripted
from llm_dec_pomdp.envs.wrappers import with_protocol
from llm_dec_pomdp.rollout import Messages, Trajectories
from llm_dec_pomdp.seeding import derive
from llm_dec_pomdp.types import Completion, Decision, Group


def of_turn(group: Group, turn: int, agent: str) -> list[Decision]:
    return [d for d in group.decisions if d.turn == turn and agent in d.actions]


def test_every_text_is_compared_with_its_own_alternatives_and_all_others_stay() -> None:
    env = numbers()
    [group] = play(env, Messages(alternatives=2, silence=True))
    [plain] = play(env, Trajectories())
    assert group.episodes == plain.episodes
    assert [list(d.actions) for d in group.decisions] == [["agent_0"], ["agent_1"]] * 3
    for number, decision in enumerate(group.decisions):
        [(agent, texts)] = decision.actions.items()
        played = group.episodes[number // 2].turns[0].actions
        assert texts[0] is played[agent]
        assert (len(texts), decision.width, texts[3].text) == (4, 3, "")
        assert sorted(b.choice for b in decision.branches) == [(0,), (1,), (2,), (3,)]
        for b in decision.branches:
            actions = {a: c.text for a, c in played.items()} | texts_of(decision, b.choice)
            assert b.rewards == (value(env, actions),)


def test_alternatives_are_draws_of_the_policy_from_the_same_history() -> None:
    class Noting(Colours):
        def generate(self, requests: Sequence[Any], sampling: Sampling) -> list[list[Completion]]:
            calls.append([(r.agent, r.history, r.seeds) for r in requests])
            return super().generate(requests, sampling)

    calls: list[list[tuple[str, tuple[Any, ...], tuple[int, ...]]]] = []
    play(with_protocol(numbers(), "sequential"), Messages("frozen", alternatives=2), 1, policy=Noting())
    first, second, drawn = calls
    assert [(agent, history) for agent, history, _ in drawn] == [(a, h) for a, h, _ in (*first, *second)]
    for (agent, _, seeds), (_, _, others) in zip(drawn, (*first, *second), strict=True):
        episode = derive(0, 0)
        turn = int(agent == "agent_1")
        assert seeds == tuple(derive(episode, agent, turn, "alternative", k) for k in range(2))
        assert not set(seeds) & set(others)


class Repeating(Colours):
    """Says at first a colour, and in the end what it heard of the other."""

    def generate(self, requests: Sequence[Any], sampling: Sampling) -> list[list[Completion]]:
        drawn = super().generate(requests, sampling)
        return [
            known if "draft first" in r.history[-1].text else [self.heard(r.history[-1].text) for _ in r.seeds]
            for r, known in zip(requests, drawn, strict=True)
        ]

    @staticmethod
    def heard(text: str) -> Completion:
        return Completion(text.split("]\n")[1].split("\n")[0], (0,), (1,), (0.0,))


@pytest.mark.parametrize(("continuation", "worths"), [("resampled", {1.0, 10.0}), ("frozen", {0.0})])
def test_a_draft_is_worth_what_others_make_of_it(continuation: Any, worths: set[float]) -> None:
    """Who says in the end what the other drafted earns with it; repeated texts hide that."""
    env = with_protocol(numbers(), "discussion")
    [group] = play(env, Messages(continuation, alternatives=2), policy=Repeating())
    for agent, worth in (("agent_0", 10.0), ("agent_1", 1.0)):  # agent_0's draft is what agent_1 says
        for decision in of_turn(group, 0, agent):
            texts = [c.text for c in decision.actions[agent]]
            played = next(b.rewards for b in decision.branches if b.choice == (0,))
            for b in decision.branches:
                colours = ("red", "green", "blue", "black")
                change = colours.index(texts[b.choice[0]]) - colours.index(texts[0])
                assert b.rewards == (0.0, played[1] + (worth * change if worth in worths else 0.0))


def test_agents_that_do_not_learn_have_no_alternatives() -> None:
    env = numbers()
    [group] = play(env, Messages(), policy=Scripted(lambda agent, history: "red"))
    assert group.decisions == ()
    assert group.extra == (0, 0)


@pytest.mark.parametrize("protocol", ["parallel", "sequential", "discussion"])
@pytest.mark.parametrize("budget", [13, 20, 57, 1000])
def test_a_budget_is_never_exceeded(budget: int, protocol: str) -> None:
    rollout = Messages(alternatives=1, silence=True, budget=budget)
    groups = play(with_protocol(numbers(Echo, max_turns=2), protocol), rollout, ids=["t1", "t2", "t3"])
    assert all(0 < g.extra.generations <= budget for g in groups)
    if budget == 1000:
        assert all(len(g.decisions) == sum(len(t.actions) for e in g.episodes for t in e.turns) for g in groups)


def test_within_a_budget_every_text_is_as_likely_as_any_other() -> None:
    """Three episodes of two turns and two agents; one text in twelve, whose worst case is 1 + 1 * 1 * 2."""
    rollout = Messages(budget=3)
    groups = [play(numbers(Deaf, max_turns=2), rollout, ids=["t1"] * 300)][0]
    chosen = [(d.turn, agent) for g in groups for d in g.decisions for agent in d.actions]
    assert len(chosen) == 300
    for turn in range(2):
        for agent in ("agent_0", "agent_1"):
            assert 75 - 30 < chosen.count((turn, agent)) < 75 + 30  # 4 standard deviations


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(ValueError, match=r"budget is 2, .*'t1' may need 3 "):
        play(numbers(Deaf, max_turns=2), Messages(budget=2))
    with pytest.raises(ValueError, match="alternatives is 0"):
        Messages(alternatives=0)
