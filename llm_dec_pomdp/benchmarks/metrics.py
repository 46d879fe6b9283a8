"""What is measured on a set of groups, under the published names."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np

from ..seeding import generator
from ..types import Completion, Episode, Group

_WORD = re.compile(r"\w+")
_RESAMPLES = 2000


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean with its 95 % bootstrap interval."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Summary:
    """An evaluation in numbers.

    Attributes:
        return_percent: Joint reward of the last scored turn, in % of the maximum.
        components: Mean reward parts of each episode's last scored turn, in units of the reward.
        distinct_2: Share of word pairs in a text that are different, mean over texts: 1 for natural prose of this
            length, lower where words repeat. A high return with a low value is a gamed reward, not good writing.
        tokens_per_second: Generated tokens over wall time of playing and judging.
        response_seconds: Mean time from question to joint answer: agents of a turn in parallel, turns in sequence.
        prompt_tokens, generated_tokens: Mean per episode, every round counted.
        truncated: Share of texts that ran into the token limit.
        episodes, unscored: How many were played, and how many of them could not be scored and are left out.
    """

    return_percent: Interval
    components: dict[str, float]
    distinct_2: float
    tokens_per_second: float
    response_seconds: float
    prompt_tokens: float
    generated_tokens: float
    truncated: float
    episodes: int
    unscored: int


def bootstrap(values: Sequence[float], seed: int = 0) -> Interval:
    """Mean and percentile bootstrap interval (2,000 resamples) of independent values.

    Args:
        values: One number per independent unit: the tasks of an evaluation, or the seeds of a comparison.
        seed: Of the resampling.
    """
    if not values:
        return Interval(math.nan, math.nan, math.nan)
    data = np.asarray(values, dtype=np.float64)
    picks = generator(seed, "bootstrap").integers(len(data), size=(_RESAMPLES, len(data)))
    low, high = np.percentile(data[picks].mean(axis=1), [2.5, 97.5])
    return Interval(float(data.mean()), float(low), float(high))


def distinct(text: str, n: int = 2) -> float:
    """Different word n-grams over all word n-grams of a text; NaN for texts shorter than n words."""
    words = _WORD.findall(text.lower())
    grams = [tuple(words[i : i + n]) for i in range(len(words) - n + 1)]
    return len(set(grams)) / len(grams) if grams else math.nan


def summarise(groups: Sequence[Group], maximum: float, components: Sequence[str], seconds: float) -> Summary:
    """Measure an evaluation.

    Args:
        groups: One per task.
        maximum: Highest joint reward of a turn.
        components: Names of the reward parts.
        seconds: Wall time of playing and judging all of them.
    """
    everything = [e for group in groups for e in group.episodes]
    scored = [e for e in everything if not math.isnan(e.total)]
    per_task = [
        fmean(totals)
        for group in groups
        if (totals := [100 * e.final.total / maximum for e in group.episodes if e.final and e.final.scorable])
    ]
    said = [completion for episode in everything for completion in _completions(episode)]
    parts = [final.components for e in scored if (final := e.final)]
    return Summary(
        return_percent=bootstrap(per_task),
        components={name: _mean(part.get(name, 0.0) for part in parts) for name in components},
        distinct_2=_mean(value for e in everything for text in _final(e) if not math.isnan(value := distinct(text))),
        tokens_per_second=sum(len(c.token_ids) for c in said) / seconds if seconds else math.nan,
        response_seconds=_mean(e.response_seconds for e in everything),
        prompt_tokens=sum(len(c.prompt_ids) for c in said) / max(len(everything), 1),
        generated_tokens=sum(len(c.token_ids) for c in said) / max(len(everything), 1),
        truncated=_mean(float(c.truncated) for c in said),
        episodes=len(everything),
        unscored=len(everything) - len(scored),
    )


def _completions(episode: Episode) -> list[Completion]:
    return [completion for turn in episode.turns for completion in turn.actions.values()]


def _final(episode: Episode) -> list[str]:
    """The last text of every agent: the one that was scored."""
    last: dict[str, str] = {}
    for turn in episode.turns:
        last |= {agent: completion.text for agent, completion in turn.actions.items()}
    return list(last.values())


def _mean(values: Iterable[float]) -> float:
    collected = list(values)
    return fmean(collected) if collected else math.nan
