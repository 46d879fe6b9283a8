"""How the scores of joint actions become the rewards of turns: the option `turn_reward` of `TextTask`.

s_t is the score of turn t = 0, 1, ..., S the highest possible score, and H the number of turns:

| `turn_reward` | reward of turn t | sum over an episode |
|---|---|---|
| `final` (default) | s_t - s_(t-1), where s_(-1) = 0 | the score of the last answer |
| `shifted` | s_t - S | minus the missing score of each turn: solving sooner is better |
| `each` | s_t; (H - t) s_t when it solves the task | the scores of all turns, including those left after solving |

An episode ends when a joint action solves its task. Under each rule, solving a task returns at least as much as
continuing. With one turn, the reward of `final` and `each` is the score. `shifted` is the rule of arXiv:2508.04652,
which shifts the rewards of its code tasks by -4 and ends a solved episode.

A score of NaN (the action could not be scored) gives the reward NaN at its turn. Other turns do not change: `final`
takes the next difference relative to the last known score.
"""

from __future__ import annotations

from typing import Literal, get_args

TurnReward = Literal["final", "shifted", "each"]
RULES: tuple[str, ...] = get_args(TurnReward)
Range = tuple[float, float]


def check_rule(turn_reward: str) -> None:
    """Raise ValueError if a rule does not exist."""
    if turn_reward not in RULES:
        raise ValueError(f"turn_reward is {turn_reward!r}; it must be one of {', '.join(RULES)}")


def reward_of_turn(turn_reward: TurnReward, score: float, before: float, highest: float, skipped: int) -> float:
    """Return the team reward of a turn; see the module for the equations.

    Args:
        turn_reward: The rule.
        score: s_t.
        before: s_(t-1), 0 at the first turn.
        highest: S.
        skipped: Turns that are not played because this one solved the task, H - t - 1; 0 if it did not.
    """
    if turn_reward == "final":
        return score - before  # r_t = s_t - s_(t-1)
    if turn_reward == "shifted":
        return score - highest  # r_t = s_t - S
    return score * (1 + skipped)  # r_t = s_t, also for the turns that are not played


def range_of_rewards(turn_reward: TurnReward, scores: Range, turns: int) -> Range:
    """Return the lowest and highest team reward of a turn.

    Args:
        turn_reward: The rule.
        scores: Lowest and highest score of a joint action.
        turns: H.
    """
    low, high = scores
    if turn_reward == "shifted":
        return low - high, 0.0
    if turn_reward == "each":
        return min(low, low * turns), max(high, high * turns)
    return scores if turns == 1 else (min(low, low - high), max(high, high - low))
