from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_dec_pomdp.algorithms.advantages import (
    Array,
    Choices,
    Kind,
    counterfactual_advantages,
    group_advantages,
    marginal_advantages,
    returns,
)

KINDS: list[Kind] = list(get_args(Kind))
RELATIVE: list[Kind] = [kind for kind in KINDS if kind != "raw"]
REWARDS = st.floats(-4, 4).map(lambda x: round(x, 3))
GROUPS = st.lists(REWARDS, min_size=1, max_size=9)


def oracle(values: Sequence[float], kind: Kind) -> list[float]:
    """The table of equations, one trajectory at a time, without numpy."""
    if kind == "raw":
        return list(values)
    if len(set(values)) == 1:
        return [0.0] * len(values)
    size, mean = len(values), sum(values) / len(values)
    std = math.sqrt(sum((v - mean) ** 2 for v in values) / size)
    result: list[float] = []
    for g, value in enumerate(values):
        others = [v for h, v in enumerate(values) if h != g]
        result.append(
            {
                "std": (value - mean) / std,
                "mean": value - mean,
                "leave_one_out": value - sum(others) / (size - 1),
                "max": value - max(values),
            }[kind]
        )
    return result


@pytest.mark.parametrize("kind", KINDS)
@given(values=GROUPS)
def test_against_the_plain_equations(kind: Kind, values: list[float]) -> None:
    np.testing.assert_allclose(group_advantages(values, kind), oracle(values, kind), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
@given(values=GROUPS, lost=st.lists(st.integers(0, 8), max_size=4))
def test_what_could_not_be_scored_is_left_out(kind: Kind, values: list[float], lost: list[int]) -> None:
    marked = [math.nan if i in lost else v for i, v in enumerate(values)]
    kept = [v for v in marked if not math.isnan(v)]
    found = group_advantages(marked, kind)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(marked))
    np.testing.assert_array_equal(found[~np.isnan(marked)], group_advantages(kept, kind))


@pytest.mark.parametrize("kind", RELATIVE)
@pytest.mark.parametrize("value", [0.0, 1.0, -2.5, 0.1, 2.98, 1e9, 1e-9])
@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_equal_returns_have_no_advantage_at_all(kind: Kind, value: float, size: int) -> None:
    assert group_advantages([value] * size, kind).tolist() == [0.0] * size


@pytest.mark.parametrize("kind", RELATIVE)
def test_returns_that_differ_by_rounding_alone_have_no_advantage(kind: Kind) -> None:
    assert group_advantages([0.1 + 0.2, 0.3, 0.3], kind).tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("kind", KINDS)
def test_a_group_of_which_none_could_be_scored_stays_unscored(kind: Kind) -> None:
    assert np.isnan(group_advantages([math.nan, math.nan], kind)).all()


@pytest.mark.parametrize("kind", RELATIVE)
def test_returns_that_are_0_but_for_rounding_have_no_advantage(kind: Kind) -> None:
    values = [float(returns(rewards, 1.0)[0]) for rewards in ([0.1, 0.2, -0.3], [-0.3, 0.1, 0.2], [0.2, -0.3, 0.1])]
    assert len(set(values)) > 1
    assert group_advantages(values, kind).tolist() == [0.0, 0.0, 0.0]
    assert counterfactual_advantages(np.arange(3)[:, None], np.array(values), 3).tolist() == [[0.0, 0.0, 0.0]]


def test_small_differences_count() -> None:
    np.testing.assert_allclose(group_advantages([1.0, 1.0 + 1e-6]), [-1.0, 1.0], rtol=1e-6)


# --- returns ----------------------------------------------------------------------------------------------------------


@given(rewards=st.lists(REWARDS, max_size=7), gamma=st.sampled_from([0.0, 0.5, 0.9, 1.0]))
def test_returns_against_the_sum(rewards: list[float], gamma: float) -> None:
    wanted = [
        sum(gamma ** (later - t) * rewards[later] for later in range(t, len(rewards))) for t in range(len(rewards))
    ]
    np.testing.assert_allclose(returns(rewards, gamma), wanted, rtol=1e-12, atol=1e-12)


def test_a_turn_without_score_spoils_the_returns_up_to_it() -> None:
    np.testing.assert_array_equal(returns([1.0, math.nan, 2.0], 1.0), [math.nan, math.nan, 2.0])


# --- several joint actions at one decision point ----------------------------------------------------------------------


@st.composite
def crossed(draw: st.DrawFn) -> tuple[Choices, Array, int]:
    """All combinations of G texts of n agents, with their returns."""
    agents, size = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    choices = np.array(list(itertools.product(range(size), repeat=agents)))
    values = np.array(draw(st.lists(REWARDS, min_size=len(choices), max_size=len(choices))))
    return choices, values, size


@pytest.mark.parametrize("kind", KINDS)
@given(case=crossed())
def test_marginals_are_means_over_the_others_texts(kind: Kind, case: tuple[Choices, Array, int]) -> None:
    choices, values, size = case
    agents = choices.shape[1]
    tensor = values.reshape((size,) * agents)
    found = marginal_advantages(choices, values, size, kind)
    for i in range(agents):
        q = tensor.mean(axis=tuple(j for j in range(agents) if j != i))
        np.testing.assert_allclose(found[i], group_advantages(q, kind), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
@given(values=GROUPS, agents=st.integers(1, 3))
def test_marginals_of_aligned_texts_are_the_joint_advantages(kind: Kind, values: list[float], agents: int) -> None:
    choices = np.array([[g] * agents for g in range(len(values))])
    found = marginal_advantages(choices, np.array(values), len(values), kind)
    np.testing.assert_array_equal(found, [group_advantages(values, kind)] * agents)


def one_by_one(choices: Choices, values: Array, drawn: int) -> Array:
    """The equation of `counterfactual_advantages`, joint action by joint action."""
    result = np.full((choices.shape[1], drawn), np.nan)
    scored = ~np.isnan(values)
    for i, g in itertools.product(range(choices.shape[1]), range(drawn)):
        others = np.delete(choices, i, axis=1)
        differences: list[float] = []
        for b in np.flatnonzero(scored & (choices < drawn).all(axis=1) & (choices[:, i] == g)):
            beside = values[scored & (others == others[b]).all(axis=1) & (choices[:, i] != g)]
            differences.append(values[b] - beside.mean() if len(beside) else 0.0)
        if differences:
            result[i, g] = sum(differences) / len(differences)
    return result


@given(
    agents=st.integers(1, 4),
    size=st.integers(1, 4),
    drawn=st.integers(1, 4),
    seed=st.integers(0, 1000),
    lost=st.sampled_from([0.0, 0.2, 0.7]),
)
def test_any_set_of_joint_actions_is_compared_as_one_by_one(
    agents: int, size: int, drawn: int, seed: int, lost: float
) -> None:
    """Part of a cross, part of it without a score, texts that were drawn elsewhere among them."""
    random = np.random.default_rng(seed)
    every = np.array(list(itertools.product(range(size), repeat=agents)))
    choices = every[random.permutation(len(every))[: random.integers(1, len(every) + 1)]]
    values = np.where(random.random(len(choices)) < lost, np.nan, random.random(len(choices)))
    found = counterfactual_advantages(choices, values, drawn)
    np.testing.assert_allclose(found, one_by_one(choices, values, drawn), rtol=1e-9, atol=1e-9)


def test_many_joint_actions_are_credited_as_marginals_are() -> None:
    """Six agents with four texts each, crossed."""
    choices = np.array(list(itertools.product(range(4), repeat=6)))
    values = np.random.default_rng(0).random(len(choices))
    found = counterfactual_advantages(choices, values, 4)
    np.testing.assert_allclose(found, marginal_advantages(choices, values, 4, "leave_one_out"), rtol=1e-9, atol=1e-9)


@given(case=st.lists(REWARDS, min_size=3, max_size=3))
def test_an_agent_that_cannot_matter_has_no_advantage_at_all(case: list[float]) -> None:
    """The first of two agents decides alone. Beside aligned texts the joint advantage gives the other one noise."""
    choices = np.array(list(itertools.product(range(3), range(3))))
    values = np.array([case[first] for first, _ in choices])
    assert counterfactual_advantages(choices, values, 3)[1].tolist() == [0.0, 0.0, 0.0]
    assert marginal_advantages(choices, values, 3)[1].tolist() == [0.0, 0.0, 0.0]
    aligned = [(g, g) for g in range(3)]
    joint = marginal_advantages(np.array(aligned), np.array(case), 3)
    assert joint[1].tolist() == joint[0].tolist()


def test_borrowed_texts_are_compared_with_and_not_credited() -> None:
    choices = np.array([[0, 0], [1, 0], [2, 0], [0, 1]])
    found = counterfactual_advantages(choices, np.array([3.0, 1.0, 2.0, 3.0]), 1)
    assert found.tolist() == [[1.5], [0.0]]


def test_a_joint_action_without_score_is_in_no_comparison() -> None:
    choices = np.array([[0, 0], [1, 0], [2, 0]])
    assert counterfactual_advantages(choices, np.array([3.0, math.nan, 2.0]), 1).tolist() == [[1.0], [0.0]]
    assert np.isnan(counterfactual_advantages(choices, np.array([math.nan, 1.0, 2.0]), 1)).all()
    np.testing.assert_array_equal(
        marginal_advantages(np.array([[0], [1], [2]]), np.array([math.nan, 1.0, 3.0]), 3), [[math.nan, -1.0, 1.0]]
    )


# --- the gradient that is expected, over all that can be drawn --------------------------------------------------------

POLICIES = [np.array([0.2, 0.5, 0.3]), np.array([0.6, 0.4])]
PAYS = np.array([[1.0, -2.0], [0.5, 3.0], [0.0, 1.5]])  # by the words of the two agents


def expected_gradients(estimator: str) -> list[Array]:
    """Exact mean of (1/G) sum_g A_i^(g) d log pi_i(a_i^(g)) over every pair of pairs of words (G = 2)."""
    size = 2
    aligned = np.array([[g, g] for g in range(size)])
    every = np.array(list(itertools.product(range(size), repeat=2)))
    total = [np.zeros(len(p)) for p in POLICIES]
    drawn = [list(itertools.product(range(len(p)), repeat=size)) for p in POLICIES]
    for words in itertools.product(*drawn):
        chance = math.prod(POLICIES[i][w] for i in range(2) for w in words[i])
        choices = every if estimator in ("cross", "cross raw", "crossed credit", "credit") else aligned
        values = np.array([PAYS[words[0][a], words[1][b]] for a, b in choices])
        if estimator == "credit":  # each trajectory beside its alternatives, as aligned play gathers them
            table = np.stack([_credit_of(words, g) for g in range(size)], axis=1)
        elif estimator == "crossed credit":
            table = counterfactual_advantages(choices, values, size)
        else:
            kind: Kind = "raw" if estimator.endswith("raw") else "leave_one_out"
            table = marginal_advantages(choices, values, size, kind)
        for i, p in enumerate(POLICIES):
            for g in range(size):
                total[i] += chance * table[i, g] * (np.eye(len(p))[words[i][g]] - p) / size
    return total


def _credit_of(words: Sequence[Sequence[int]], g: int) -> Array:
    h = 1 - g
    choices = np.array([[0, 0], [1, 0], [0, 1]])
    pairs = [(words[0][g], words[1][g]), (words[0][h], words[1][g]), (words[0][g], words[1][h])]
    return counterfactual_advantages(choices, np.array([PAYS[pair] for pair in pairs]), 1)[:, 0]


@pytest.mark.parametrize("estimator", ["aligned", "aligned raw", "cross", "cross raw", "credit", "crossed credit"])
def test_the_expected_gradient_is_that_of_the_expected_return(estimator: str) -> None:
    first, second = POLICIES
    wanted = [first * (PAYS @ second - first @ PAYS @ second), second * (first @ PAYS - first @ PAYS @ second)]
    for found, exact in zip(expected_gradients(estimator), wanted, strict=True):
        np.testing.assert_allclose(found, exact, rtol=1e-9, atol=1e-12)


def test_returns_that_could_not_be_scored_are_left_out_of_own_advantages() -> None:
    def against_median(returns: Array) -> Array:
        return returns - np.median(returns)

    found = group_advantages([1.0, math.nan, 3.0, 8.0], against_median)
    np.testing.assert_array_equal(found, [-2.0, math.nan, 0.0, 5.0])
    assert np.isnan(group_advantages([math.nan], against_median)).all()


def test_own_advantages_that_are_not_finite_are_refused() -> None:
    with np.errstate(invalid="ignore"), pytest.raises(ValueError, match=r"\[2.0, 2.0\] are \[nan, nan\]"):
        group_advantages([2.0, 2.0], lambda returns: (returns - returns.mean()) / returns.std())
