"""What v2 asks a frozen language model about two texts, beside what v1 asks of their words.

| property | measured per token, in nats | stops |
|---|---|---|
| plausibility | log p(text after source), the mean of its least likely third | damage; sentences that do not go on |
| fluency | log p(text), the mean of its least likely third | damaged copies, which the source makes plausible |
| information | log p(text after source) - log p(text), the mean of all | fluent text about something else |

Each is a linear ramp for either text, and all six are multiplied. A ramp is 1 from a value on that nearly all
references reach, and 0 from `WIDTH` nats below. So a text that pleases the model further earns no more, and what a
model writes itself is likelier than any of them. Copies and repetitions, which it also finds likely, are v1's business.

Damage is in few places: where a sentence goes on as another one does, few tokens are unlikely and the rest is as likely
as ever. The mean over the least likely ones (the expected shortfall of log p) shows it better than that over all.

The values are those that 97.5 % of the references of training rows reach (90 posts, 48 abstracts), and all of them for
fluency, with SmolLM2-135M-Instruct, to a tenth. Another model is a measure of its own.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from ....types import TextJudge
from ..v1.quality import ramp

PROPERTIES: tuple[str, ...] = ("plausibility", "fluency", "information")
DIAGNOSTICS: tuple[str, ...] = (
    "after_first",
    "after_second",
    "alone_first",
    "alone_second",
    "gain_first",
    "gain_second",
)
WIDTH = 0.4  # nats per token from nothing to all
SHARE = 1 / 3  # of the tokens that plausibility and fluency look at
_AFTER, _ALONE = "Text:\n\n{}\n\nIn other words:\n", "In other words:\n"
_DIGITS = 3  # of nats per token that count: the ones behind depend on what shares a batch with a text

Both = tuple[float, float]


class Measures(NamedTuple):
    """Values of (first text, second text), in nats per token."""

    plausibility: Both
    fluency: Both
    information: Both


TLDR = Measures(plausibility=(-9.0, -8.3), fluency=(-11.1, -10.1), information=(0.6, 0.6))
ARXIV = Measures(plausibility=(-8.5, -7.5), fluency=(-9.1, -8.5), information=(0.3, 0.5))


class Judgement(NamedTuple):
    """What a judge makes of two texts about a source.

    Attributes:
        properties: By name, each in [0, 1].
        measures: What they follow from.
        cut: Whether the judge read only a part of the texts.
    """

    properties: dict[str, float]
    measures: Measures
    cut: bool = False


NOT_JUDGED = Judgement(dict.fromkeys(PROPERTIES, 0.0), Measures((0.0, 0.0), (0.0, 0.0), (0.0, 0.0)))


def judged(judge: TextJudge, source: str, texts: tuple[str, str], lowest: Measures) -> Judgement:
    """Ask a judge about two texts, once."""
    after = _AFTER.format(source)
    found = judge.log_likelihoods([after, after, _ALONE, _ALONE], [*texts, *texts])
    first, second, first_alone, second_alone = found
    measures = Measures(
        plausibility=(_nats(first.lowest(SHARE)), _nats(second.lowest(SHARE))),
        fluency=(_nats(first_alone.lowest(SHARE)), _nats(second_alone.lowest(SHARE))),
        information=(_nats(first.mean - first_alone.mean), _nats(second.mean - second_alone.mean)),
    )
    return Judgement(properties(measures, lowest), measures, any(answer.cut for answer in found))


def properties(measures: Measures, lowest: Measures) -> dict[str, float]:
    """The three properties, each in [0, 1]."""
    pairs = zip(PROPERTIES, measures, lowest, strict=True)
    return {name: math.prod(map(_ramp, found, ends)) for name, found, ends in pairs}


def _ramp(value: float, end: float) -> float:
    return ramp(value, end - WIDTH, end)


def _nats(value: float) -> float:
    """As many digits as count; the lowest for an empty text, about which nothing can be said."""
    return round(value, _DIGITS) if math.isfinite(value) else -math.inf
