"""Metrics of the samples of an update: pure functions."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Mapping, Sequence

import numpy as np

from ..types import Cost, Group
from .samples import Sample

_WORD = re.compile(r"\w+")
_FAR = 0.01  # in nats: about 1 % of a token's probability


def describe(samples: Sequence[Sample], groups: int, trainer: Mapping[int, Sequence[float]]) -> dict[str, float]:
    """Compute metrics that show problems of a training run earlier than its return.

    | name | meaning |
    |---|---|
    | truncated | share of the completions that the token limit ended |
    | length, length_max | tokens per completion, mean and largest |
    | groups_without_signal | share of the groups in which no completion has an advantage |
    | advantage_spread | standard deviation of the advantages |
    | surprisal | mean of -log p of the sampled tokens, in nats |
    | distinct_2 | share of different word pairs in a completion, mean over the completions with any |
    | sampler_gap, sampler_gap_max | difference of the trainer's log p of a token to the recorded one: mean, largest |
    | sampler_gap_share | share of the tokens with a difference above 0.01 |

    `surprisal` is the mean negative log-likelihood. It estimates the entropy if sampling is not truncated (top_p 1,
    top_k 0). Gaps are over the completions that the trainer has read.

    Args:
        samples: Every completion that can be trained on.
        groups: Number of groups that the samples come from.
        trainer: The trainer's log-probabilities, at the weights that sampled, by the index of the sample. Texts without
            a gradient are missing.

    Returns:
        All metrics; 0 without samples.
    """
    lengths = [len(s.completion.token_ids) for s in samples]
    logprobs = [p for s in samples for p in s.completion.logprobs]
    read = [(trainer[i], s.completion.logprobs) for i, s in enumerate(samples) if i in trainer]
    gap = np.abs(np.array([a - b for trained, recorded in read for a, b in zip(trained, recorded, strict=True)]))
    advantages = [s.advantage * of_token for s in samples for of_token in s.tokens or (1.0,)]
    return {
        "truncated": _mean([s.completion.truncated for s in samples]),
        "length": _mean(lengths),
        "length_max": float(max(lengths, default=0)),
        "groups_without_signal": 1 - len({s.group for s in samples if s.advantage}) / groups if groups else 0.0,
        "advantage_spread": float(np.std(advantages)) if samples else 0.0,
        "surprisal": -_mean(logprobs),
        "distinct_2": _mean([share for s in samples if not math.isnan(share := distinct(s.completion.text))]),
        "sampler_gap": _mean(gap),
        "sampler_gap_max": float(gap.max(initial=0.0)),
        "sampler_gap_share": _mean(gap > _FAR),
    }


def distinct(text: str) -> float:
    """Return the number of different word pairs over all word pairs of a completion; NaN below two words."""
    pairs = list(itertools.pairwise(_WORD.findall(text.lower())))
    return len(set(pairs)) / len(pairs) if pairs else math.nan


def spent(groups: Sequence[Group]) -> dict[str, float]:
    """Return the costs of a rollout: `generations` (sampled completions) and `joint_rewards` (scored joint actions)."""
    costs = [group.cost for group in groups]
    return {name: float(sum(getattr(cost, name) for cost in costs)) for name in Cost._fields}


def _mean(values: Sequence[float] | np.ndarray) -> float:
    return float(np.mean(values)) if len(values) else 0.0
