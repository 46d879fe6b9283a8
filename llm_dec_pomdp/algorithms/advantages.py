"""Returns and advantages: pure functions on arrays.

A group is the episodes of one task. NaN marks a return that could not be scored. It is left out of every baseline, and
its own advantage is NaN.

For B joint actions at one decision point, `choices` [B, n] holds the index of each agent's completion, and `values` the
return of the joint action: for the team [B], or for each agent [n, B].
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt

Kind = Literal["std", "mean", "leave_one_out", "max", "raw"]
Array = npt.NDArray[np.float64]
Choices = npt.NDArray[np.int64]
Compare = Callable[[Array], Array]
"""Function from N scored returns, which are compared with each other, to their N advantages."""
_EQUAL = 1e-12  # tolerance for equal returns; relative to their size if that is above 1


def returns(rewards: Sequence[float], gamma: float) -> Array:
    """Compute R_t = sum over tau >= t of gamma^(tau - t) r_tau (arXiv:2508.04652, section 4).

    Args:
        rewards: Joint reward of every turn [T].
        gamma: Discount in [0, 1].

    Returns:
        R_t of every turn [T].
    """
    result = np.zeros(len(rewards))
    following = 0.0
    for t in reversed(range(len(rewards))):
        following = rewards[t] + gamma * following
        result[t] = following
    return result


def returns_of_group(rewards: Sequence[Sequence[float]], gamma: float) -> Array:
    """Compute R_t^(g) of every episode of a group at every turn.

    An episode that ended earlier has return 0 at later turns, or NaN if its last turn could not be scored. So the
    baseline does not depend on which episodes continue, and the last continuing episode still has a baseline.

    Args:
        rewards: Joint rewards of the G episodes, each of its own length.
        gamma: Discount in [0, 1].

    Returns:
        Returns [G, T], T the length of the longest episode.
    """
    table = np.zeros((len(rewards), max(map(len, rewards), default=0)))
    for row, earned in zip(table, rewards, strict=True):
        row[: len(earned)] = returns(earned, gamma)
        row[len(earned) :] = 0.0 * earned[-1] if earned else 0.0  # 0 * NaN: ended without a score
    return table


def group_advantages(values: Sequence[float] | Array, kind: Kind | Compare = "std") -> Array:
    """Compute the advantages of one group's returns at one turn.

    | kind | A^(g) | source |
    |---|---|---|
    | std | (R^(g) - mean R) / std R, population std | MAGRPO, GRPO |
    | mean | R^(g) - mean R | Dr. GRPO |
    | leave_one_out | R^(g) - mean of the other returns | RLOO |
    | max | R^(g) - max R | ReMax, with the best sample in place of the greedy completion |
    | raw | R^(g) | REINFORCE |

    A group whose returns are all equal, and a group of one, has advantage exactly 0 under every kind but "raw".

    Args:
        values: R^(g) of every episode of the group [G], NaN where it could not be scored.
        kind: See the table; or a function from the returns that could be scored [N] to their advantages [N].

    Returns:
        Advantages [G], NaN where `values` is.

    Raises:
        ValueError: The function does not return a finite advantage for each return.
    """
    group = np.asarray(values, dtype=np.float64)
    result = np.full_like(group, np.nan)
    scored = ~np.isnan(group)
    r = group[scored]
    if callable(kind):
        advantages = np.asarray(kind(r), dtype=np.float64) if len(r) else r
        if advantages.shape != r.shape:
            raise ValueError(
                f"advantages of {len(r)} returns have shape {advantages.shape}; return one number for each return"
            )
        if not np.isfinite(advantages).all():  # e.g. a division by the standard deviation of equal returns
            raise ValueError(
                f"advantages of the returns {r.tolist()!r:.80} are {advantages.tolist()!r:.80}; return finite "
                "numbers, also where all returns are equal"
            )
        result[scored] = advantages
    elif kind == "raw":
        result[scored] = r
    elif _equal(r):
        result[scored] = 0.0
    elif kind == "std":
        result[scored] = (r - r.mean()) / r.std()  # (advantage), arXiv:2508.04652
    elif kind == "mean":
        result[scored] = r - r.mean()
    elif kind == "leave_one_out":
        result[scored] = (r - r.mean()) * len(r) / (len(r) - 1)
    else:
        result[scored] = r - r.max()
    return result


def exponential_baselines(values: Sequence[float], start: float, decay: float) -> tuple[Array, float]:
    """Compute for each return the exponential moving average of earlier returns (RAE of SPIRAL, arXiv:2506.24119).

        A_k = R_k - b_k,     b_(k+1) = decay b_k + (1 - decay) R_k

    b_k does not depend on the k-th episode, so the gradient is unbiased. The paper prints the update of b before the
    subtraction, which multiplies every advantage by the decay; its code subtracts first, as here.

    Args:
        values: R_k of the episodes of one role in order [N], NaN where it could not be scored.
        start: The mean b_0 before the first episode.
        decay: Weight of the earlier mean, in [0, 1).

    Returns:
        b_k before every episode [N], and the mean after the last one.
    """
    baselines = np.zeros(len(values))
    for k, value in enumerate(values):
        baselines[k] = start
        if not np.isnan(value):
            start = float(decay * start + (1 - decay) * value)
    return baselines, start


def between_decisions(rewards: Sequence[float], turns: Sequence[int], gamma: float) -> tuple[Array, Array]:
    """Compute the reward from each decision to the next, and the discount between the two.

        r_k = sum over t_k <= tau < t_(k+1) of gamma^(tau - t_k) r_tau,   g_k = gamma^(t_(k+1) - t_k)

    Args:
        rewards: Joint reward of every turn [T].
        turns: The turns t_k of the decisions [K], rising; t_K is T.
        gamma: Discount of a turn in [0, 1].

    Returns:
        r_k and g_k, [K] each.
    """
    edges = [*turns, len(rewards)]
    earned = [returns(rewards[first:last], gamma)[0] for first, last in itertools.pairwise(edges)]
    return np.array(earned), np.array([gamma ** (last - first) for first, last in itertools.pairwise(edges)])


def over_tokens(earned: Array, discounts: Array, lengths: Sequence[int]) -> tuple[Array, Array]:
    """Assign rewards and discounts of completions to their last tokens; other tokens have reward 0 and discount 1.

    Args:
        earned, discounts: r_k and g_k of completions [K], see `between_decisions`.
        lengths: Tokens L_k of each completion [K], at least 1.

    Returns:
        Both for every token [sum of L_k], as `generalized_advantages` takes them.
    """
    last = np.cumsum(lengths) - 1
    of_tokens = np.zeros(sum(lengths)), np.ones(sum(lengths))
    of_tokens[0][last], of_tokens[1][last] = earned, discounts
    return of_tokens


def generalized_advantages(earned: Array, discounts: Array, values: Array, trace: float) -> Array:
    """Compute GAE over decisions (arXiv:1506.02438, equations 11 to 16).

        delta_k = r_k + g_k V_(k+1) - V_k,     A_k = delta_k + lambda g_k A_(k+1)

    Lambda 1 gives the return minus the value, which is unbiased for values that do not see the action; lambda 0 relies
    on the value of the next decision. V is 0 after the last decision. A_k + V_k is the target of V_k.

    Args:
        earned: r_k [K], NaN where it could not be scored.
        discounts: g_k [K].
        values: V_k [K].
        trace: Lambda in [0, 1].

    Returns:
        A_k [K]; NaN for every decision after which something could not be scored.
    """
    result = np.zeros(len(earned))
    advantage = following = 0.0
    for k in reversed(range(len(earned))):
        delta = earned[k] + discounts[k] * following - values[k]
        advantage = delta + trace * discounts[k] * advantage
        result[k], following = advantage, values[k]
    return result


def weighted_advantages(values: Sequence[float], weights: Sequence[float], kind: Kind = "std") -> Array:
    """Compute `group_advantages` of weighted values, for the kinds "std" and "mean".

    Args:
        values: [N], NaN where they could not be scored.
        weights: [N], at least 0; a value of weight 0 is left out of the mean.
        kind: "std" or "mean".

    Returns:
        Advantages [N], NaN where `values` is or the weight is 0.
    """
    group, counted = np.asarray(values, dtype=np.float64), np.asarray(weights, dtype=np.float64)
    result = np.full_like(group, np.nan)
    scored = ~np.isnan(group) & (counted > 0)
    r, w = group[scored], counted[scored]
    if _equal(r):
        result[scored] = 0.0
        return result
    deviation = r - np.average(r, weights=w)
    result[scored] = deviation / np.sqrt(np.average(deviation**2, weights=w)) if kind == "std" else deviation
    return result


def marginal_advantages(choices: Choices, values: Array, width: int, kind: Kind | Compare = "std") -> Array:
    """Compute the advantages of every agent's completions, each by its mean return over the teammates' completions.

        Q_i^(g) = mean of R(a) over the joint actions a with agent i's g-th completion,    A_i = group_advantages(Q_i)

    With aligned completions every completion is in one joint action, and all agents share the advantage of that joint
    action.

    Args:
        choices: Index of each agent's completion [B, n].
        values: Returns of the joint actions, [B] or by agent [n, B], NaN where they could not be scored.
        width: G, completions per agent.
        kind: Baseline and scale over the G completions of an agent, see `group_advantages`.

    Returns:
        Advantages [n, G], NaN for completions that were never scored.
    """
    agents = choices.shape[1]
    values = np.broadcast_to(values, (agents, len(choices)))
    scored = ~np.isnan(values)
    marginals = np.full((agents, width), np.nan)
    for i in range(agents):
        for g in range(width):
            of_text = values[i, scored[i] & (choices[:, i] == g)]
            if len(of_text):
                marginals[i, g] = of_text.mean()
    return np.stack([group_advantages(q, kind) for q in marginals]) if agents else marginals


def counterfactual_advantages(
    choices: Choices, values: Array, width: int, kind: Kind | Compare = "leave_one_out"
) -> Array:
    """Compute the advantages of an agent's completions relative to its other completions, with teammates held fixed.

        A_i^(g) = R(a_i^g, a_-i) - mean over h != g of R(a_i^h, a_-i),   averaged over the a_-i that it was sampled with

    The baseline does not depend on a_i^g, so the gradient is unbiased. An agent that cannot change the return has
    advantage exactly 0. Where all combinations were tried and scored, this is "leave_one_out" of `marginal_advantages`.
    (Difference rewards: Wolpert & Tumer 2002; COMA: arXiv:1705.08926, here with samples in place of a critic.)

    Args:
        choices: Index of each agent's completion [B, n], every joint action once; completions from `width` on are
            baselines only.
        values: Returns of the joint actions, [B] or by agent [n, B], NaN where they could not be scored.
        width: Number of completions per agent that were sampled here.
        kind: Baseline and scale over the completions of an agent, see `group_advantages`; the equation is of the
            default.

    Returns:
        Advantages [n, width]; NaN for completions that were never scored, 0 for completions without a comparison.
    """
    agents = choices.shape[1]
    values = np.broadcast_to(values, (agents, len(choices)))
    result = np.full((agents, width), np.nan)
    for i in range(agents):
        others, row = np.unique(np.delete(choices, i, axis=1), axis=0, return_inverse=True)
        table = np.full((len(others), max(width, choices[:, i].max(initial=0) + 1)), np.nan)  # others' x own
        table[row.reshape(-1), choices[:, i]] = values[i]
        differences = np.stack([group_advantages(row, kind) for row in table])[(others < width).all(axis=1), :width]
        tried = ~np.isnan(differences)
        np.divide(np.where(tried, differences, 0.0).sum(0), tried.sum(0), out=result[i], where=tried.any(0))
    return result


def _equal(values: Array) -> bool:
    """Return whether there is a single value, or values that differ only by rounding.

    The tolerance is absolute below size 1, since a return of 0 may be the sum of rewards of size 1.
    """
    return len(values) < 2 or bool(np.ptp(values) <= _EQUAL * max(np.abs(values).max(), 1.0))
