"""Trees, crossed texts and alternatives: what is played, with how many texts, and what it earns."""

from __future__ import annotations

import itertools
import math
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from models import AGENTS, COLOURS, ITEMS, Match, Recorder, match

from llm_dec_pomdp.agents import RandomText, Sampling, Scripted, Team
from llm_dec_pomdp.branching import _mean_rewards
from llm_dec_pomdp.envs.wrappers import with_protocol
from llm_dec_pomdp.rollout import collect
from llm_dec_pomdp.seeding import generator
from llm_dec_pomdp.types import Completion, Decision, Group, RolloutPlan, Score, TaskItem

SAMPLING = Sampling(max_new_tokens=3)
CROSS = RolloutPlan(pairing="cross")
TREE, CROSSED_TREE = RolloutPlan(tree=True), RolloutPlan("cross", tree=True)
FROZEN, RESAMPLED = RolloutPlan(alternatives="frozen"), RolloutPlan(alternatives="resampled")


class Colours:
    """Says a random colour that follows from the seed, and whether its history was heard before."""

    def generate(self, requests: Sequence[Any], sampling: Sampling) -> list[list[Completion]]:
        return [
            [Completion(COLOURS[int(generator(s).integers(4))], (0,), (1,), (0.0,)) for s in r.seeds] for r in requests
        ]


class Numbers(Match):
    """Pays for every text, agent by agent, so that each joint action has its own value; counts what it judges."""

    judged: list[tuple[str, ...]]
    worth = {"agent_0": 1.0, "agent_1": 10.0}

    def score(self, item: TaskItem, actions: Mapping[str, str]) -> Score:
        self.judged.append(tuple(actions.values()))
        value = sum(w * COLOURS.index(actions[a]) for a, w in self.worth.items() if actions[a] in COLOURS)
        return Score(value, {"match": value})


class Echo(Numbers):
    """Tells every agent at the next turn what agent_0 said."""

    max_return = math.inf

    def transition(self, item: TaskItem, actions: Mapping[str, str], score: Score) -> Mapping[str, str]:
        heard = self.history("agent_0")[-1]
        return dict.fromkeys(self.possible_agents, f"agent_0 said {heard}; again")


class Deaf(Numbers):
    """Nobody hears anything."""

    max_return = math.inf


def numbers(kind: type[Numbers] = Deaf, **kwargs: Any) -> Numbers:
    env = kind(ITEMS, **kwargs)
    env.judged = []
    return env


def play(env: Any, plan: RolloutPlan, size: int = 3, ids: Sequence[str] = ("t1",), policy: Any = None) -> list[Group]:
    team = Team(dict.fromkeys(env.possible_agents, policy or Colours()))
    return collect(env, team, ids, range(len(ids)), SAMPLING, size, plan)


def value(env: Numbers, texts: Mapping[str, str]) -> float:
    return env.score(ITEMS[0], texts).total


def texts_of(decision: Decision, choice: Sequence[int]) -> dict[str, str]:
    return {agent: said[k].text for (agent, said), k in zip(decision.actions.items(), choice, strict=True)}


# --- crossed texts ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 2, 3])
def test_all_combinations_are_scored_at_their_worth_and_nothing_more_is_generated(size: int) -> None:
    recorder, env = Recorder(Colours()), numbers()
    [group] = play(env, CROSS, size, policy=recorder)
    assert [[(r.agent, len(r.seeds)) for r in call] for call in recorder.calls] == [[(a, size) for a in AGENTS]]
    [decision] = group.decisions
    assert [b.choice for b in decision.branches] == list(itertools.product(range(size), repeat=2))
    worth = [(value(env, texts_of(decision, b.choice)),) for b in decision.branches]
    assert [b.rewards for b in decision.branches] == [e.rewards for e in group.episodes] == worth


@pytest.mark.parametrize("plan", [CROSS, TREE])
def test_the_first_texts_are_those_of_trajectories_side_by_side(plan: RolloutPlan) -> None:
    [plain] = play(numbers(), RolloutPlan(), ids=["t1"])
    [group] = play(numbers(), plan, ids=["t1"])
    wanted = {agent: tuple(e.turns[0].actions[agent] for e in plain.episodes) for agent in AGENTS}
    assert dict(group.decisions[0].actions) == wanted


def test_crossing_needs_a_tree_where_there_is_a_second_turn() -> None:
    with pytest.raises(ValueError, match=r"match-v0 have 2 turns; set tree=true, or pairing='aligned'"):
        play(numbers(max_turns=2), CROSS)


def test_one_agent_has_nothing_to_cross() -> None:
    [crossed] = play(with_protocol(numbers(), "centralized"), CROSS)
    [plain] = play(with_protocol(numbers(), "centralized"), RolloutPlan())
    assert [e.turns[0].actions for e in crossed.episodes] == [e.turns[0].actions for e in plain.episodes]


class Waiting(Numbers):
    """Judges that come to an end only when several run at once."""

    judges_code = True
    together = threading.Barrier(9)

    def score(self, item: TaskItem, actions: Mapping[str, str]) -> Score:
        self.together.wait(timeout=20)
        return Score(0.0, {"match": 0.0})


def test_rewards_are_judged_concurrently() -> None:
    [group] = play(Waiting(ITEMS), CROSS)
    assert len(group.decisions[0].branches) == 9


# --- trees ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("plan", "size", "turns", "growth"), [(TREE, 2, 1, 2), (TREE, 2, 3, 2), (TREE, 3, 2, 3), (CROSSED_TREE, 2, 2, 4)]
)
def test_a_tree_branches_at_every_joint_action(plan: RolloutPlan, size: int, turns: int, growth: int) -> None:
    [group] = play(numbers(max_turns=turns), plan, size)
    assert len(group.episodes) == growth**turns
    assert {len(e.turns) for e in group.episodes} == {turns}
    for t in range(turns):
        reaches = [d.reach for d in group.decisions if d.turn == t]
        assert len(reaches) == growth**t
        assert sum(reaches) == pytest.approx(1.0)


def test_the_rewards_of_a_branch_are_the_means_of_its_leaves() -> None:
    [group] = play(numbers(Echo, max_turns=3), TREE, 2)
    root = group.decisions[0]
    for g, branch in enumerate(root.branches):
        leaves = group.episodes[g * 4 : (g + 1) * 4]
        assert {e.turns[0] for e in leaves if e.turns[0].reward != branch.rewards[0]} == set()
        for t in range(3):
            assert branch.rewards[t] == pytest.approx(sum(e.rewards[t] for e in leaves) / 4)


def test_who_ended_earns_no_more_and_what_has_no_score_is_left_out() -> None:
    assert _mean_rewards([(1.0, 4.0), (3.0,)]) == [2.0, 2.0]
    assert _mean_rewards([(1.0, 4.0), (math.nan, 2.0)]) == [1.0, 3.0]
    assert _mean_rewards([(1.0, 4.0), (math.nan,)]) == [1.0, 4.0]
    assert _mean_rewards([]) == []
    [only] = _mean_rewards([(math.nan,)])
    assert math.isnan(only)


def test_agents_that_cannot_tell_two_decision_points_apart_say_the_same() -> None:
    """Four joint actions lead on, but each agent knows of its own two texts only."""
    recorder = Recorder(Colours())
    [group] = play(numbers(max_turns=2), CROSSED_TREE, 2, ids=["t2"], policy=recorder)
    first, second = recorder.calls
    assert sum(d.turn == 1 for d in group.decisions) == 4
    assert [len(r.seeds) for r in second] == [2] * len(second)
    own = [len({c.text for c in group.decisions[0].actions[agent]}) for agent in AGENTS]
    assert len(second) == sum(own) <= 4
    assert len(first) == 2


def test_a_tree_that_would_be_too_large_is_named() -> None:
    with pytest.raises(ValueError, match=r"task 't1' would play 4225 joint actions in one turn, more than 4096"):
        play(numbers(max_turns=2), TREE, 65)


@pytest.mark.parametrize("protocol", ["sequential", "discussion"])
def test_a_tree_grows_under_every_protocol(protocol: str) -> None:
    [group] = play(with_protocol(numbers(), protocol), TREE, 2)
    assert len(group.episodes) == 4
    assert all(e.turns[-1].score is not None for e in group.episodes)


def test_groups_of_a_tree_come_in_order() -> None:
    groups = play(numbers(max_turns=2), TREE, 2, ids=["t3", "t0"])
    assert [g.item_id for g in groups] == ["t3", "t0"]
    assert [len(g.episodes) for g in groups] == [4, 4]


@pytest.mark.parametrize("plan", [CROSS, TREE, FROZEN, RESAMPLED])
def test_playing_twice_gives_the_same(plan: RolloutPlan) -> None:
    def once() -> list[Group]:
        return play(numbers(), plan, ids=["t1", "t2"], policy=RandomText())

    assert once() == once()


@pytest.mark.parametrize("plan", [CROSS, TREE, FROZEN])
def test_the_environment_stays_as_it_is(plan: RolloutPlan) -> None:
    env = numbers()
    env.reset(seed=3, options={"task_id": "t4"})
    before = (env.state(), list(env.agents), env.turn)
    play(env, plan)
    assert (env.state(), env.agents, env.turn) == before


@pytest.mark.parametrize("plan", [RolloutPlan(), CROSS, TREE, FROZEN])
def test_nothing_to_play_is_no_group(plan: RolloutPlan) -> None:
    recorder = Recorder(Colours())
    assert play(numbers(), plan, ids=[], policy=recorder) == []
    assert recorder.calls == []


# --- alternatives -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("plan", [FROZEN, RESAMPLED])
def test_trajectories_are_played_as_without_alternatives(plan: RolloutPlan) -> None:
    [plain] = play(numbers(Echo, max_turns=3), RolloutPlan())
    [group] = play(numbers(Echo, max_turns=3), plan)
    assert group.episodes == plain.episodes
    assert plain.decisions == ()
    assert len(group.decisions) == 3 * 3


def test_one_text_is_replaced_and_all_others_stay() -> None:
    env = numbers()
    [group] = play(env, FROZEN)
    for e, decision in zip(group.episodes, group.decisions, strict=True):
        assert decision.drawn == 1
        assert {a: said[0] for a, said in decision.actions.items()} == dict(e.turns[0].actions)
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
    recorder, env = Recorder(Colours()), numbers(Echo, max_turns=2, pays="each")
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
    env = numbers(max_turns=2, pays="each")
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
    [group] = collect(env, team, ["t1"], [0], SAMPLING, 2, FROZEN)
    assert [len(e.turns) for e in group.episodes] == [1, 2]
    first = group.decisions[0]
    assert {b.choice: b.rewards for b in first.branches} == {(0, 0): (1.0,), (1, 0): (0.0,), (0, 1): (0.0,)}


class Varied:
    """Of the two samples of a request the first is red, the second is not."""

    def generate(self, requests: Sequence[Any], sampling: Sampling) -> list[list[Completion]]:
        return [
            [Completion("red"), Completion("no")][: len(r.seeds)] if len(r.seeds) == 2 else [Completion("no")]
            for r in requests
        ]


@pytest.mark.parametrize("plan", [FROZEN, RESAMPLED])
@pytest.mark.parametrize(("protocol", "decisions"), [("sequential", 4), ("discussion", 4), ("centralized", 2)])
def test_alternatives_are_tried_under_every_protocol(protocol: str, decisions: int, plan: RolloutPlan) -> None:
    env = with_protocol(numbers(), protocol)
    [group] = play(env, plan, 2)
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


@pytest.mark.parametrize(
    "wrong", [{"tree": True, "alternatives": "frozen"}, {"pairing": "cross", "alternatives": "frozen"}]
)
def test_a_plan_that_contradicts_itself_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="leave alternatives at 'none'"):
        RolloutPlan(**wrong)


# --- beginnings -------------------------------------------------------------------------------------------------------


class Moody(Match):
    """Begins as its seed says."""

    def observe(self, item: TaskItem, agent: str) -> str:
        assert self._rng is not None
        return f"mood {self._rng.integers(10**9)}"


class Careless(Match):
    """Begins as it likes."""

    count = itertools.count()

    def observe(self, item: TaskItem, agent: str) -> str:
        return f"mood {next(self.count)}"


def test_all_episodes_of_a_group_begin_alike() -> None:
    first, second = play(Moody(ITEMS), RolloutPlan(), ids=["t1", "t1"])
    moods = [{e.turns[0].observations["agent_0"] for e in g.episodes} for g in (first, second)]
    assert [len(found) for found in moods] == [1, 1]
    assert moods[0] != moods[1]


def test_an_environment_that_ignores_its_seed_is_named() -> None:
    with pytest.raises(ValueError, match=r"task 't1' of match-v0 began in two ways with the same seed"):
        play(Careless(ITEMS), RolloutPlan())
