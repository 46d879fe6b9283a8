"""Statistics of a team in one task of a suite, computed from its traces.

| statistic | dimension | definition |
|---|---|---|
| return | outcome | last score in % of the environment's scale |
| solved | outcome | % of episodes in which all tests pass (pass@1), or without tests at least 90 % are reached |
| turns | efficiency | turns of an episode: the critical path |
| tokens, prompt tokens | efficiency | sampled and prompt tokens of an episode |
| seconds | efficiency | the models' seconds on the critical path |
| parallelism | efficiency | seconds of all texts / seconds on the critical path |
| influence of M | coordination | loss of return if the texts of member M are those of its next episode, turn by turn |
| influence | coordination | the smallest influence of a member |
| utilisation | coordination | % of the active agents whose texts lead to the last result |
| redundancy | overhead | % of texts that nearly repeat an earlier one |
| overhead | overhead | % of tokens outside of scored joint actions |
| silent loss | robustness | loss of return if a member only writes empty texts, in the same rows |
| partner loss | robustness | loss of return if another team of the same method plays a member, in the same rows |

Losses are in percentage points. For influence, the texts of all other members are repeated unchanged, so that no model
is needed. An agent without a recorded text at a turn writes the empty text. So influence does not include the reactions
of teammates to the changed texts. `suite.members_of` defines members. Parallelism, utilisation, redundancy and overhead
are those of `episodes.stats`. Statistics in `REPORTED` rely on tokens or seconds, which replay cannot check.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import NamedTuple

from ..envs.base import TextDecPOMDP, step_many
from ..episodes import Trace, stats, to_episode
from ..evaluation.intervals import Interval, mean_interval, percent_interval
from ..evaluation.metrics import is_solved
from ..seeding import derive
from ..types import Episode
from .submission import Measure
from .suite import BoardError, Planned, members_of

REPORTED = ("tokens", "prompt tokens", "seconds", "parallelism", "overhead")
_OF_TRACE = {"parallelism": 1, "utilisation": 100, "overhead": 100, "redundancy": 100}  # with their factors
PERCENT = ("return", "solved", "utilisation", "redundancy", "overhead")


class Measured(NamedTuple):
    """The results that replay gives.

    Attributes:
        returns: Return in % of each row, or of each episode if there is a single row.
        statistics: Means over rows by name.
    """

    returns: list[float]
    statistics: dict[str, Measure]


def measure(
    env: TextDecPOMDP,
    plan: Sequence[Planned],
    traces: Sequence[Trace],
    changed: Mapping[str, Sequence[tuple[Planned, Trace]]],
) -> Measured:
    """Compute the statistics of a task.

    Args:
        env: The environment, under the protocol of the team.
        plan: The episodes of the task.
        traces: Their traces, in the same order.
        changed: Planned episodes with a changed member, with their traces, by the change ("silent", "partner").

    Raises:
        BoardError: An episode has no score.
    """
    episodes = [to_episode(trace) for trace in traces]
    returns = [_percent(env, episode) for episode in episodes]
    values: dict[str, list[float]] = {"return": returns}
    values["solved"] = [100 * float(is_solved(e.final, env.facts.score_scale)) for e in episodes if e.final]
    values["turns"] = [float(len(episode.turns)) for episode in episodes]
    completions = [[c for turn in episode.turns for c in turn.actions.values()] for episode in episodes]
    if any(c.sampled_tokens for of_episode in completions for c in of_episode):
        values["tokens"] = [float(sum(c.sampled_tokens for c in each)) for each in completions]
        values["prompt tokens"] = [float(sum(c.prompt_tokens for c in each)) for each in completions]
        values["seconds"] = [episode.response_seconds for episode in episodes]
    counted = [stats(trace) for trace in traces]
    values |= {name: [factor * count[name] for count in counted] for name, factor in _OF_TRACE.items()}
    rows = [planned.item_id for planned in plan]
    found = {name: _over_rows(rows, of_name, percent=name in PERCENT) for name, of_name in values.items()}
    for member, losses in influences(env, episodes).items():
        found[f"influence of {member}"] = _over_rows(rows, losses)
    if of_members := [found[name] for name in found if name.startswith("influence of ")]:
        found["influence"] = min(of_members, key=lambda loss: loss.mean)
    whole = {(p.item_id, p.seed): value for p, value in zip(plan, returns, strict=True)}
    for change, pairs in changed.items():
        lost = [whole[p.item_id, p.seed] - _percent(env, to_episode(trace)) for p, trace in pairs]
        found[f"{change} loss"] = _over_rows([p.item_id for p, _ in pairs], lost)
    plain = {
        name: Measure(mean=i.mean, low=_finite(i.low), high=_finite(i.high))
        for name, i in found.items()
        if math.isfinite(i.mean)
    }
    return Measured(_by_row(rows, returns), plain)


def _percent(env: TextDecPOMDP, episode: Episode) -> float:
    if episode.final is None or not episode.final.scorable:
        raise BoardError(
            f"task {episode.item_id!r} could not be scored; play it again, and look for errors of the judge"
        )
    return env.facts.score_scale.percent(episode.final.total)


def _by_row(rows: Sequence[str], values: Sequence[float]) -> list[float]:
    """Return the mean of each row that has a value, or all values if there is a single row; NaN is no value."""
    known = [(row, value) for row, value in zip(rows, values, strict=True) if not math.isnan(value)]
    if len(set(rows)) == 1:
        return [value for _, value in known]
    by_row: dict[str, list[float]] = {}
    for row, value in known:
        by_row.setdefault(row, []).append(value)
    return [fmean(of_row) for of_row in by_row.values()]


def _over_rows(rows: Sequence[str], values: Sequence[float], *, percent: bool = False) -> Interval:
    return (percent_interval if percent else mean_interval)(_by_row(rows, values))


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


# --- influence --------------------------------------------------------------------------------------------------------


def influences(env: TextDecPOMDP, episodes: Sequence[Episode]) -> Mapping[str, list[float]]:
    """Return the loss of each episode, in points, if a member's texts are those of the next episode in which it acts.

    Returns:
        Losses by member, 0 for an episode in which the member does not act; {} for a single agent.
    """
    members = members_of(env)
    if len(members) < 2:
        return {}
    texts = [
        {(t, agent): c.text for t, turn in enumerate(e.turns) for agent, c in turn.actions.items()} for e in episodes
    ]
    swaps: list[tuple[str, int, dict[tuple[int, str], str]]] = []
    for member, agents in members.items():
        own = [{place: text for place, text in written.items() if place[1] in agents} for written in texts]
        for number, written in enumerate(texts):
            following = [other for other in (*own[number + 1 :], *own[:number]) if other]
            if own[number] and following:
                others = {place: text for place, text in written.items() if place[1] not in agents}
                swaps.append((member, number, others | following[0]))
    losses = {member: [0.0] * len(episodes) for member in members}
    scores = _scores(env, [(episodes[number], written) for _, number, written in swaps])
    for (member, number, _), score in zip(swaps, scores, strict=True):
        losses[member][number] = _percent(env, episodes[number]) - score
    return losses


def _scores(env: TextDecPOMDP, given: Sequence[tuple[Episode, Mapping[tuple[int, str], str]]]) -> list[float]:
    """Play the given texts (by turn and agent) with the seeds of the episodes; return the last scores in %."""
    forks = [env.fork() for _ in given]
    for fork, (episode, _) in zip(forks, given, strict=True):
        fork.reset(seed=derive(episode.seed, "env"), options={"task_id": episode.item_id})
    while running := [(fork, texts) for fork, (_, texts) in zip(forks, given, strict=True) if fork.agents]:
        actions = [{agent: texts.get((fork.turn, agent), "") for agent in fork.agents} for fork, texts in running]
        step_many([fork for fork, _ in running], actions)
    scores = [fork.last_score for fork in forks]
    return [env.facts.score_scale.percent(score.total) if score else math.nan for score in scores]
