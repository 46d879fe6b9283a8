"""Trajectories side by side: in lockstep, from seeds, under every protocol."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from models import AGENTS, ITEMS, Match, Recorder, match

from llm_dec_pomdp.agents import RandomText, Request, Sampling, Scripted, Team
from llm_dec_pomdp.envs.base import TextDecPOMDP
from llm_dec_pomdp.envs.wrappers import with_protocol
from llm_dec_pomdp.rollout import Trajectories
from llm_dec_pomdp.seeding import derive
from llm_dec_pomdp.types import Completion, Group, Score, TaskItem, conversation

SAMPLING = Sampling(max_new_tokens=5)
IDS = [item.id for item in ITEMS]
RED = Scripted(lambda agent, history: "red")
WRONG = Scripted(lambda agent, history: f"{agent} {len(history)}")


def shared(inner: Any) -> tuple[Recorder, Team]:
    recorder = Recorder(inner)
    return recorder, Team(dict.fromkeys(AGENTS, recorder))


def play(team: Team, env: TextDecPOMDP | None = None, ids: Sequence[str] = IDS[:3], **options: Any) -> list[Group]:
    seeds = options.pop("seeds", range(len(ids)))
    return Trajectories().play(env or match(), team, ids, seeds, SAMPLING, **options)


def texts(groups: Sequence[Group]) -> list[list[list[dict[str, str]]]]:
    """By group, episode, turn and agent."""
    return [
        [[{agent: c.text for agent, c in turn.actions.items()} for turn in e.turns] for e in g.episodes] for g in groups
    ]


# --- lockstep ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("turns", [1, 2, 3])
def test_all_episodes_share_one_call_per_turn_and_those_of_the_same_history_a_request(turns: int) -> None:
    recorder, team = shared(WRONG)
    play(team, match(max_turns=turns), width=4)
    assert [[(r.agent, len(r.seeds)) for r in call] for call in recorder.calls] == [
        [(agent, 4) for _ in range(3) for agent in AGENTS]
    ] * turns


@pytest.mark.parametrize(("protocol", "calls"), [("sequential", 2), ("discussion", 2), ("centralized", 1)])
def test_protocols_take_one_call_per_phase(protocol: str, calls: int) -> None:
    recorder, team = shared(WRONG)
    play(team, with_protocol(match(), protocol), width=2)
    assert len(recorder.calls) == calls


def test_episodes_whose_histories_part_are_asked_apart() -> None:
    recorder, team = shared(RandomText())
    play(team, match(max_turns=2), IDS[:1], width=4)
    assert [len(r.seeds) for r in recorder.calls[0]] == [4, 4]
    assert [len(r.seeds) for r in recorder.calls[1]] == [1] * 8


def test_finished_episodes_are_not_asked_again() -> None:
    """On the first task the team is right at once."""
    first = match().observe(ITEMS[0], "agent_0").split("\n")[0]
    recorder, team = shared(Scripted(lambda agent, history: "red" if first in history[0].text else "no"))
    groups = play(team, match(max_turns=3))
    assert [len(g.episodes[0].turns) for g in groups] == [1, 3, 3]
    assert [len(call) for call in recorder.calls] == [6, 4, 4]


def test_the_same_task_may_be_played_twice() -> None:
    recorder, team = shared(RandomText())
    first, second = play(team, ids=["t1", "t1"], seeds=[5, 6])
    assert [len(r.seeds) for r in recorder.calls[0]] == [1, 1, 1, 1]
    assert first.item_id == second.item_id == "t1"
    assert texts([first]) != texts([second])


# --- what comes out ---------------------------------------------------------------------------------------------------


def test_groups_come_in_order_and_whole_and_every_answer_reaches_who_asked() -> None:
    _, team = shared(Scripted(lambda agent, history: f"{agent} heard {history[0].text}"))
    env, ids = match(), ["t2", "t0", "t5"]
    groups = play(team, env, ids, width=3)
    assert [g.item_id for g in groups] == ids
    for group in groups:
        assert [e.item_id for e in group.episodes] == [group.item_id] * 3
        [item] = [item for item in env.items if item.id == group.item_id]
        for e in group.episodes:
            for agent, c in e.turns[0].actions.items():
                assert c.text == f"{agent} heard {env.observe(item, agent)}"


def test_a_turn_tells_what_was_seen_said_and_paid() -> None:
    [group] = play(Team(dict.fromkeys(AGENTS, RED)), ids=["t1"])
    [turn] = group.episodes[0].turns
    assert turn.observations == {agent: match().observe(ITEMS[1], agent) for agent in AGENTS}
    assert turn.actions == dict.fromkeys(AGENTS, Completion("red"))
    assert turn.reward == 1.0
    assert turn.score == Score(1.0, {"match": 1.0})


@pytest.mark.parametrize("policy", [RED, WRONG])
def test_solving_and_running_out_of_turns_both_end_an_episode(policy: Scripted) -> None:
    [group] = play(Team(dict.fromkeys(AGENTS, policy)), match(max_turns=2), ids=["t1"])
    assert group.episodes[0].terminated


NOTHING = Score(0.0, {"match": 0.0})


class OneScoreForAll(Match):
    """Its failures share one object, as a cache would have it."""

    def score(self, item: TaskItem, actions: Mapping[str, str]) -> Score:
        return NOTHING


def test_a_score_that_is_given_twice_counts_twice() -> None:
    [group] = play(Team(dict.fromkeys(AGENTS, WRONG)), OneScoreForAll(ITEMS, max_turns=2), ids=["t1"])
    assert [turn.score for turn in group.episodes[0].turns] == [NOTHING, NOTHING]


def test_an_error_of_a_reward_is_raised_and_not_tried_again() -> None:
    calls: list[TaskItem] = []

    class Mistaken(Match):
        def score(self, item: TaskItem, actions: Mapping[str, str]) -> Score:
            calls.append(item)
            raise TypeError("the user's own mistake")

    with pytest.raises(TypeError, match="the user's own mistake"):
        play(Team(dict.fromkeys(AGENTS, RED)), Mistaken(ITEMS), ids=["t1"])
    assert len(calls) == 1


# --- seeds ------------------------------------------------------------------------------------------------------------


def test_an_episode_follows_from_its_seed_whatever_else_is_played() -> None:
    _, team = shared(RandomText())
    env = match(max_turns=2)
    many = texts(play(team, env, ["t3", "t1", "t2"], seeds=[7, 8, 9], width=4))
    assert texts(play(team, env, ["t2", "t1", "t3"], seeds=[9, 8, 7], width=4)) == many[::-1]
    assert texts(play(team, env, ["t1"], seeds=[8], width=2))[0] == many[1][:2]
    assert texts(play(team, env, ["t1"], seeds=[9], width=2))[0] != many[1][:2]


def test_all_texts_of_a_group_are_drawn_apart() -> None:
    _, team = shared(RandomText())
    [episodes] = texts(play(team, match(max_turns=2), ["t1"], width=5))
    drawn = [text for turns in episodes for turn in turns for text in turn.values()]
    assert len(set(drawn)) == len(drawn) == 20


def test_an_episode_carries_its_own_seed() -> None:
    _, team = shared(WRONG)
    groups = play(team, width=3)
    seeds = [e.seed for g in groups for e in g.episodes]
    assert len(set(seeds)) == 9
    assert seeds[3:6] == [e.seed for e in play(team, ids=["t1"], seeds=[1], width=3)[0].episodes]


def test_every_task_needs_a_seed() -> None:
    with pytest.raises(ValueError, match="shorter"):
        play(Team(dict.fromkeys(AGENTS, WRONG)), ids=["t1", "t2"], seeds=[1])


# --- around it --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("protocol", "tokens"), [("parallel", 5), ("sequential", 5), ("centralized", 10)])
def test_the_token_limit_is_per_part(protocol: str, tokens: int) -> None:
    recorder, team = shared(WRONG)
    play(team, with_protocol(match(), protocol))
    assert {s.max_new_tokens for s in recorder.samplings} == {tokens}


def test_an_unknown_task_is_named() -> None:
    with pytest.raises(KeyError, match="no task 't99'"):
        play(Team(dict.fromkeys(AGENTS, WRONG)), ids=["t99"])


def test_an_agent_without_a_player_is_named() -> None:
    with pytest.raises(KeyError, match="no member for 'agent_1'"):
        play(Team({"agent_0": WRONG}))


def test_a_request_is_what_the_agent_may_know() -> None:
    recorder, team = shared(WRONG)
    play(team, match(max_turns=2), ["t1"])
    env = match()
    first = env.observe(ITEMS[1], "agent_1")
    assert [r.history for r in recorder.calls[0] if r.agent == "agent_1"] == [conversation(first)]
    [second] = [r for r in recorder.calls[1] if r.agent == "agent_1"]
    assert isinstance(second, Request)
    assert second.history[:2] == conversation(first, "agent_1 1")
    assert "Revise" in second.history[2].text


# --- chance -----------------------------------------------------------------------------------------------------------


class Moody(Match):
    """Begins as its seed says."""

    mood = 0

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        self.mood = seed or 0
        return super().reset(seed, options)

    def observe(self, item: TaskItem, agent: str) -> str:
        return f"mood {self.mood}"


class Careless(Moody):
    """Begins as it likes."""

    count = itertools.count()

    def observe(self, item: TaskItem, agent: str) -> str:
        return f"mood {next(self.count)}"


def moods(env: TextDecPOMDP, rollout: Trajectories) -> list[list[str]]:
    """By group, how its three episodes began; both groups are of the same task."""
    groups = rollout.play(env, Team(dict.fromkeys(AGENTS, WRONG)), ["t1", "t1"], [1, 2], SAMPLING, 3)
    return [[e.turns[0].observations["agent_0"] for e in group.episodes] for group in groups]


def test_with_shared_chance_the_episodes_of_a_group_begin_alike_and_groups_do_not() -> None:
    first, second = moods(Moody(ITEMS), Trajectories("shared"))
    assert len({*first}) == len({*second}) == 1
    assert first != second


def test_with_a_chance_of_their_own_all_episodes_begin_as_their_seeds_say() -> None:
    groups = moods(Moody(ITEMS), Trajectories("own"))
    assert len({mood for group in groups for mood in group}) == 6
    wanted = [[f"mood {derive(derive(seed, g), 'env')}" for g in range(3)] for seed in (1, 2)]
    assert groups == wanted


def test_chance_changes_no_text_where_the_environment_draws_nothing() -> None:
    team = Team(dict.fromkeys(AGENTS, RandomText()))
    shared, independent = (
        Trajectories(chance).play(match(max_turns=2), team, IDS, range(len(IDS)), SAMPLING, 3)
        for chance in ("shared", "own")
    )
    assert shared == independent


def test_an_environment_that_ignores_its_seed_is_named_where_chance_is_shared() -> None:
    with pytest.raises(ValueError, match=r"task 't1' of match-v0 started in two different states"):
        moods(Careless(ITEMS), Trajectories("shared"))
    moods(Careless(ITEMS), Trajectories("own"))
