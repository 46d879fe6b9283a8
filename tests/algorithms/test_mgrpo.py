"""M-GRPO's credit by hand: alignment, grouping, and the traps that others fell into."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from models import Softmax, sampled
from rollouts import query, rewards_of_subs, rollout
from updates import SAMPLING

from llm_dec_pomdp.agents import Team
from llm_dec_pomdp.algorithms.controls import shuffle_rewards
from llm_dec_pomdp.algorithms.mgrpo import MGRPO, Running, align, trajectories_of
from llm_dec_pomdp.algorithms.options import Alignment, MGRPOConfig
from llm_dec_pomdp.seeding import generator
from llm_dec_pomdp.types import Episode, Event, Group, Turn

AGENTS = [f"agent_{number}" for number in range(6)]


def learner(kind: type[MGRPO] = MGRPO, **options: Any) -> MGRPO:
    """A table for main and one for all of its sub-agents."""
    sub = Softmax()
    return kind(
        Team({agent: sub if k else Softmax() for k, agent in enumerate(AGENTS)}), SAMPLING, MGRPOConfig(**options)
    )


def worth(algorithm: MGRPO, *groups: Group) -> list[list[tuple[float, float]]]:
    """(advantage, weight) of every invocation, by group."""
    credited, _ = algorithm.credit(groups)
    return [[(c.advantage, c.weight) for c in shares if c.trajectory.kind] for shares in credited]


def advantages(algorithm: MGRPO, *groups: Group) -> list[list[float]]:
    return [[advantage for advantage, _ in shares] for shares in worth(algorithm, *groups)]


# --- trajectories -----------------------------------------------------------------------------------------------------


def test_a_trajectory_is_all_that_an_agent_said_and_earned() -> None:
    found = {t.agent: t for t in trajectories_of(rollout(0.7, (0.2, "reader"), 0.4), rollout=3)}
    assert [(t.kind, t.rollout, t.place, t.reward) for t in found.values()] == [
        ("reader", 3, 0, 0.2),
        ("sub", 3, 1, 0.4),
        ("", 3, 0, 0.7),
    ]
    assert [text.token_ids for text in found["agent_0"].texts] == [(0,), (2,)]


def test_who_was_called_and_never_spoke_has_no_trajectory() -> None:
    last = Turn(
        {"agent_0": "?"}, {"agent_0": sampled(0)}, 0.0, rewards={"agent_0": 0.0}, events=(Event("spawn", "agent_1"),)
    )
    assert [t.agent for t in trajectories_of(Episode("q", 0, (last,), terminated=False))] == ["agent_0"]


# --- alignment --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("alignment", "wanted"),
    [
        ("none", [[], [1], [1, 1, 1]]),
        ("weight", [[], [2], [2 / 3, 2 / 3, 2 / 3]]),
        ("mask", [[], [1], [0, 1, 1]]),
        ("duplicate_drop", [[], [2], [0, 1, 1]]),
    ],
)
def test_rollouts_with_0_1_and_3_invocations_aligned_to_2(alignment: Alignment, wanted: list[list[float]]) -> None:
    found = align([0, 1, 3], 2, alignment, generator(0))
    assert [sorted(values.tolist()) for values in found] == [pytest.approx(values) for values in wanted]


def test_duplicates_are_of_the_rollout_s_own_and_weights_are_their_expectation() -> None:
    counts, d = [2, 5], 4
    drawn = [align(counts, d, "duplicate_drop", generator(seed)) for seed in range(4000)]
    assert {float(weights.sum()) for both in drawn for weights in both} == {float(d)}
    assert min(both[0].min() for both in drawn) == 1.0
    assert max(both[1].max() for both in drawn) == 1.0
    for place, exact in enumerate(align(counts, d, "weight", generator(0))):
        assert np.mean([both[place] for both in drawn], axis=0) == pytest.approx(exact, abs=0.05)


def test_alignment_follows_from_the_seed_of_the_group() -> None:
    group = rewards_of_subs([1.0, 0.5, 0.0, 0.2], [0.3])
    assert worth(learner(d=2), group) == worth(learner(d=2), group)
    others = [replace(group, episodes=tuple(replace(e, seed=s) for e in group.episodes)) for s in range(1, 9)]
    assert len({str(worth(learner(d=2), other)) for other in others}) > 1


@pytest.mark.parametrize(("alignment", "dropped"), [("duplicate_drop", 1 / 3), ("weight", 0.0)])
def test_what_was_aligned_is_in_the_numbers(alignment: Alignment, dropped: float) -> None:
    _, metrics = learner(d=2, alignment=alignment).credit([rewards_of_subs([1.0, 1.0, 1.0], [])])
    assert (metrics["d_mean"], metrics["d_max"], metrics["d"], metrics["invocations"]) == (1.5, 3.0, 2.0, 3.0)
    assert metrics["masked_slots"] == 0.5
    assert metrics["dropped"] == pytest.approx(dropped)
    assert metrics["alignment_weight_max"] == pytest.approx(2 / 3 if alignment == "weight" else 1.0)
    assert (metrics["sub_reward_mean"], metrics["sub_reward_std"]) == pytest.approx((1.0, 0.0))


def test_d_is_the_99_percent_quantile_of_all_that_was_seen() -> None:
    running = Running()
    running.count("sub", [0] * 50 + [3] * 49 + [7])
    assert running.quantile("sub") == 3
    running.count("sub", [7])
    assert running.quantile("sub") == 7
    running.count("other", [0, 0])
    assert running.quantile("other") == 1
    algorithm = learner()
    algorithm.credit([rewards_of_subs([1.0, 0.0], [1.0])])
    assert algorithm.running.seen == {"sub": [0, 1, 1]}
    assert algorithm.credit([rewards_of_subs([1.0])])[1]["d"] == 2.0


# --- advantages -------------------------------------------------------------------------------------------------------


def test_main_is_compared_with_main_and_invocations_with_invocations() -> None:
    group = query(rollout(1.0, 0.6, 1.0), rollout(0.0, 0.2), rollout(0.5))
    credited, _ = learner(alignment="none", advantage="mean").credit([group])
    found = {(c.trajectory.agent, c.trajectory.rollout): c.advantage for c in credited[0]}
    assert found == pytest.approx(
        {
            ("agent_0", 0): 0.5,
            ("agent_0", 1): -0.5,
            ("agent_0", 2): 0.0,
            ("agent_1", 0): 0.0,
            ("agent_2", 0): 0.4,
            ("agent_1", 1): -0.4,
        }
    )


def test_the_standard_deviation_is_that_of_the_aligned_rewards() -> None:
    [found] = worth(learner(alignment="weight", d=2), rewards_of_subs([1.0, 0.4], [0.1]))
    mean, spread = (1.0 + 0.4 + 0.1 * 2) / 4, math.sqrt((0.6**2 + 0.0**2 + 2 * 0.3**2) / 4)
    assert [weight for _, weight in found] == [1.0, 1.0, 2.0]
    assert [a for a, _ in found] == pytest.approx([(r - mean) / spread for r in (1.0, 0.4, 0.1)])


@pytest.mark.parametrize(
    ("group_by", "wanted"),
    [("query", [0.5, -0.5, 0.5, -0.5]), ("kind", [0.0, -0.5, 0.0, 0.5]), ("place", [0.0, 0.0, 0.0, 0.0])],
)
def test_who_shares_a_baseline(group_by: str, wanted: list[float]) -> None:
    group = query(rollout(0.0, (1.0, "a"), (0.0, "b")), rollout(0.0, (1.0, "b"), (0.0, "b")))
    algorithm = learner(alignment="none", advantage="mean", group_by=group_by)
    credited, _ = algorithm.credit([group])
    found = {(c.trajectory.rollout, c.trajectory.place): c.advantage for c in credited[0] if c.trajectory.kind}
    by_kind = {(0, 0): 0.0, (0, 1): -1 / 3, (1, 0): 2 / 3, (1, 1): -1 / 3}
    places = [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert [found[p] for p in places] == pytest.approx([by_kind[p] for p in places] if group_by == "kind" else wanted)


# --- traps ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("alignment", ["duplicate_drop", "mask", "weight", "none"])
def test_queries_are_not_normalised_together(alignment: Alignment) -> None:
    uneven = [[[1.0, 0.0], [0.0], [1.0]], [[5.0], [5.0, 5.0]], [[3.0, 1.0, 1.0, 3.0]]]
    found = advantages(learner(alignment=alignment), *(rewards_of_subs(*earned) for earned in uneven))
    assert found[1] == [0.0] * len(found[1])
    assert all(any(values) for values in (found[0], found[2]))


@pytest.mark.parametrize(
    ("alignment", "baseline"), [("weight", 0.5), ("duplicate_drop", 0.5), ("mask", 0.75), ("none", 0.75)]
)
def test_rollouts_with_3_and_1_invocations_that_earn_1_and_0(alignment: Alignment, baseline: float) -> None:
    [found] = advantages(learner(alignment=alignment, d=3, advantage="mean"), rewards_of_subs([1.0, 1.0, 1.0], [0.0]))
    assert found == pytest.approx([1 - baseline] * 3 + [-baseline])


@pytest.mark.parametrize("alignment", ["duplicate_drop", "mask", "weight", "none"])
@pytest.mark.parametrize("kind", ["std", "mean"])
def test_a_single_invocation_is_not_given_its_raw_reward(alignment: Alignment, kind: str) -> None:
    assert advantages(learner(alignment=alignment, d=3, advantage=kind), rewards_of_subs([0.7], [], [])) == [[0.0]]


@pytest.mark.parametrize("equal", [0.1 + 0.2, 1 / 3])
def test_equal_rewards_have_advantage_0(equal: float) -> None:
    assert advantages(learner(alignment="none"), rewards_of_subs([equal, equal], [equal])) == [[0.0, 0.0, 0.0]]


def test_what_could_not_be_scored_is_in_no_mean() -> None:
    group = rewards_of_subs([1.0, math.nan], [0.0])
    algorithm = learner(alignment="none", advantage="mean")
    [found] = advantages(algorithm, group)
    assert [found[0], found[2]] == [0.5, -0.5]
    assert math.isnan(found[1])
    credited, metrics = algorithm.credit([group])
    assert len([s for s in algorithm.samples([group], credited) if s.agent == "agent_1"]) == 2
    assert metrics["sub_reward_mean"] == 0.5


def test_an_infinite_reward_is_refused() -> None:
    with pytest.raises(ValueError, match="task 'q' rewards 'agent_1' with inf"):
        learner().update([rewards_of_subs([math.inf], [0.0])])


# --- samples ----------------------------------------------------------------------------------------------------------


def test_all_texts_of_a_trajectory_share_its_advantage_and_are_the_sampled_ones() -> None:
    algorithm = learner(alignment="none", advantage="mean")
    group = query(rollout(1.0, 0.2, 0.6), rollout(0.0))
    samples = algorithm.samples([group], algorithm.credit([group])[0])
    main = [s for s in samples if s.agent == "agent_0"]
    assert [s.advantage for s in main] == [0.5, 0.5, -0.5, -0.5]
    assert len({s.trajectory for s in samples}) == 4
    played = {id(c) for e in group.episodes for turn in e.turns for c in turn.actions.values()}
    assert {id(s.completion) for s in samples} == played


def test_invocations_learn_in_the_name_of_the_first_one_with_their_weights() -> None:
    algorithm = learner(alignment="weight", d=2)
    group = rewards_of_subs([1.0, 0.2, 0.6, 0.1], [0.3])
    subs = [s for s in algorithm.samples([group], algorithm.credit([group])[0]) if s.agent != "agent_0"]
    assert {s.agent for s in subs} == {"agent_1"}
    assert [s.weight for s in subs] == [0.5, 0.5, 0.5, 0.5, 2.0]


def test_a_report_that_was_cut_is_learnt_from() -> None:
    algorithm = learner(alignment="none", advantage="mean")
    group = rewards_of_subs([1.0], [0.0])
    [_, middle, _] = group.episodes[0].turns
    cut = replace(middle, actions={"agent_1": replace(sampled(1, 1, 1), truncated=True)})
    first = replace(group.episodes[0], turns=(group.episodes[0].turns[0], cut, group.episodes[0].turns[2]))
    group = replace(group, episodes=(first, group.episodes[1]))
    samples = algorithm.samples([group], algorithm.credit([group])[0])
    assert [(s.completion.token_ids, s.advantage) for s in samples if s.completion.truncated] == [((1, 1, 1), 0.5)]


@pytest.mark.parametrize(("train", "agents"), [(["main"], {"agent_0"}), (["sub"], {"agent_1"})])
def test_either_side_may_stay_as_it_is(train: list[str], agents: set[str]) -> None:
    algorithm = learner(train=train)
    group = query(rollout(1.0, 0.2), rollout(0.0, 0.4))
    assert {s.agent for s in algorithm.samples([group], algorithm.credit([group])[0])} == agents
    before = {k: p.state_dict()["logits"].clone() for k, p in enumerate(algorithm.team.trainable)}
    metrics = algorithm.update([group])
    moved = {
        k for k, p in enumerate(algorithm.team.trainable) if not bool((before[k] == p.state_dict()["logits"]).all())
    }
    assert moved == ({0} if train == ["main"] else {1})
    assert metrics["skipped"] == 0


def test_invocations_with_weights_of_their_own_are_refused() -> None:
    algorithm = MGRPO(Team({agent: Softmax() for agent in AGENTS}), SAMPLING)
    with pytest.raises(ValueError, match="'agent_1' and 'agent_2'"):
        algorithm.update([rewards_of_subs([1.0, 0.0], [0.5])])
    algorithm.update([query(rollout(0.0, (1.0, "a"), (0.0, "b")), rollout(1.0, (0.0, "a")))])  # one of each kind


# --- the control ------------------------------------------------------------------------------------------------------


def test_shuffled_rewards_stay_among_main_and_among_invocations_of_their_query() -> None:
    group = query(*(rollout(k / 10, 1 + k / 10, 2 + k / 10, seed=5) for k in range(6)))
    plain, shuffled = (learner().trajectories(played) for played in (group, *shuffle_rewards([group], "group")))
    for main in (True, False):
        before, after = ([t.reward for t in found if (t.kind == "") == main] for found in (plain, shuffled))
        assert before != after
        assert sorted(before) == sorted(after)
