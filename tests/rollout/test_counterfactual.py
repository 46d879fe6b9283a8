"""Alternatives to what was played: which, with how many texts, and what they earn."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest
from models import AGENTS, COLOURS, Recorder, match
from worth import SAMPLING, Colours, Echo, numbers, play, texts_of, value

from llm_dec_pomdp.agents import Policy, Sampling, Scripted, Team
from llm_dec_pomdp.envs.wrappers import with_protocol
from llm_dec_pomdp.rollout import Counterfactual, Rollout, Trajectories
from llm_dec_pomdp.types import Completion

FROZEN, RESAMPLED = Counterfactual("frozen"), Counterfactual("resampled")


@pytest.mark.parametrize("rollout", [FROZEN, RESAMPLED])
def test_trajectories_are_played_as_without_alternatives(rollout: Rollout) -> None:
    [plain] = play(numbers(Echo, max_turns=3), Trajectories())
    [group] = play(numbers(Echo, max_turns=3), rollout)
    assert group.episodes == plain.episodes
    assert plain.decisions == ()
    assert len(group.decisions) == 3 * 3


def test_one_text_is_replaced_and_all_others_stay() -> None:
    env = numbers()
    [group] = play(env, FROZEN)
    for e, decision in zip(group.episodes, group.decisions, strict=True):
        assert decision.width == 1
        assert {a: drawn[0] for a, drawn in decision.actions.items()} == dict(e.turns[0].actions)
        assert sorted(b.choice for b in decision.branches) == [(0, 0), (0, 1), (0, 2), (1, 0), (2, 0)]
        for b in decision.branches:
            assert b.rewards == (value(env, texts_of(decision, b.choice)),)


def test_alternatives_generate_nothing_and_equal_joint_actions_are_judged_once() -> None:
    recorder, env = Recorder(Colours()), numbers()
    play(env, FROZEN, 4, policy=recorder)
    assert len(recorder.calls) == 1
    played, tried = env.judged[:4], env.judged[4:]
    assert len(set(tried)) == len(tried) <= 4 * 3
    assert len(played) == 4


def test_frozen_continuations_repeat_what_was_said() -> None:
    recorder, env = Recorder(Colours()), numbers(Echo, max_turns=2, turn_reward="each")
    [group] = play(env, FROZEN, policy=recorder)
    assert len(recorder.calls) == 2
    for e, decision in zip(group.episodes, (d for d in group.decisions if d.turn == 0), strict=True):
        for b in decision.branches:
            assert b.rewards == (value(env, texts_of(decision, b.choice)), e.rewards[1])


def test_resampled_continuations_are_drawn_where_a_history_changed() -> None:
    """All hear agent_0: replacing its text changes everyone's history, replacing agent_1's only its own."""
    recorder = Recorder(Colours())
    [group] = play(numbers(Echo, max_turns=2), RESAMPLED, policy=recorder)
    wanted = 0
    for e in group.episodes:
        for agent, who_notices in (("agent_0", 2), ("agent_1", 1)):
            others = {o.turns[0].actions[agent].text for o in group.episodes} - {e.turns[0].actions[agent].text}
            wanted += who_notices * len(others)
    assert len(recorder.calls) == 3
    assert sum(len(r.seeds) for r in recorder.calls[2]) == wanted > 0
    assert all(len(b.rewards) == 2 for d in group.decisions if d.turn == 0 for b in d.branches)


def test_resampled_continuations_of_those_who_noticed_nothing_are_as_recorded() -> None:
    """Nobody hears anything: only the replaced agent's own history changes."""

    class ByHistory(Colours):
        def generate(self, requests: Sequence[Any], sampling: Sampling) -> list[list[Completion]]:
            asked.extend((r.agent, r.history) for r in requests)
            return super().generate(requests, sampling)

    asked: list[tuple[str, tuple[str, ...]]] = []
    env = numbers(max_turns=2, turn_reward="each")
    [group] = play(env, RESAMPLED, 2, policy=ByHistory())
    for e, d in zip(group.episodes, (d for d in group.decisions if d.turn == 0), strict=True):
        for b in d.branches:
            if b.choice[1] == 0 and b.choice[0] != 0:  # agent_0 was replaced: agent_1 goes on as recorded
                tens = math.floor(b.rewards[1] / 10)
                assert tens == COLOURS.index(e.turns[1].actions["agent_1"].text)


def test_a_frozen_alternative_ends_where_the_recording_does() -> None:
    """The recorded joint action was right and ended the episode; its alternative goes on without anything to say."""
    env = match(max_turns=2)
    team = Team({a: Varied() for a in AGENTS})
    [group] = FROZEN.play(env, team, ["t1"], [0], SAMPLING, 2)
    assert [len(e.turns) for e in group.episodes] == [1, 2]
    first = group.decisions[0]
    assert {b.choice: b.rewards for b in first.branches} == {(0, 0): (1.0,), (1, 0): (0.0,), (0, 1): (0.0,)}


class Varied(Policy):
    """Of the two samples of a request the first is red, the second is not."""

    def generate(self, requests: Sequence[Any], sampling: Sampling) -> list[list[Completion]]:
        return [
            [Completion("red"), Completion("no")][: len(r.seeds)] if len(r.seeds) == 2 else [Completion("no")]
            for r in requests
        ]


@pytest.mark.parametrize("rollout", [FROZEN, RESAMPLED])
@pytest.mark.parametrize(("protocol", "decisions"), [("sequential", 4), ("discussion", 4), ("centralized", 2)])
def test_alternatives_are_tried_under_every_protocol(protocol: str, decisions: int, rollout: Rollout) -> None:
    env = with_protocol(numbers(), protocol)
    [group] = play(env, rollout, 2)
    assert len(group.decisions) == decisions
    for d in group.decisions:
        assert all(len(b.rewards) == len(group.episodes[0].turns) - d.turn for b in d.branches)


def test_an_episode_of_one_has_no_alternatives() -> None:
    [group] = play(numbers(), FROZEN, 1)
    assert [b.choice for b in group.decisions[0].branches] == [(0, 0)]


def test_scripted_members_have_no_alternatives_to_judge() -> None:
    env = numbers()
    play(env, FROZEN, 4, policy=Scripted(lambda agent, history: "red"))
    assert len(env.judged) == 4
