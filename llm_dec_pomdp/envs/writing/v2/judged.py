"""What v2 asks a frozen language model about two texts, beside what v1 asks of their words.

| number | measured per token, in nats | low for |
|---|---|---|
| plausibility | log p(text after source), the mean of its least likely third | sentences that do not go on |
| fluency | log p(text), the mean of its least likely third | damaged copies, which the source makes plausible |
| information | log p(text after source) - log p(text), the mean of all | fluent text about something else |

Each number of either text is compared with what is usual for references, and what the six fall short by is added up:

    shortfall = sum over numbers of max(0, median - number) / standard deviation                             (shortfall)

A shortfall up to `ALL` is paid in full, one of `NOTHING` not at all, with a ramp between. Above the median nothing
counts: a text that pleases the model further earns no more, nor makes up for another number, and what a model writes
itself is likelier than any reference. Copies and repetitions, which it also finds likely, are v1's business.

Two traps are behind this form. Damage is in few places: where a sentence goes on as another one does, few tokens are
unlikely and the rest is as likely as ever, so that a mean over all tokens hides it; the mean over the least likely ones
(the expected shortfall of log p) shows it. And bounds for each number alone have to let the lowest references pass, so
that texts are paid which are at all bounds at once; no reference is.

Medians and deviations are those of the embedded training rows (90 posts, 48 abstracts) with SmolLM2-135M-Instruct;
another model is a measure of its own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from ....types import TextJudge
from ..v1.quality import ramp

ALL, NOTHING = 6.5, 7.5  # standard deviations; 96 % of the references of training rows fall short by at most ALL
SHARE = 1 / 3  # of the tokens that plausibility and fluency look at
VALUES: tuple[str, ...] = tuple(
    f"{number}_{text}" for number in ("plausibility", "fluency", "information") for text in ("first", "second")
)
DIAGNOSTICS: tuple[str, ...] = (*VALUES, "shortfall", "sense")
_AFTER, _ALONE = "Text:\n\n{}\n\nIn other words:\n", "In other words:\n"
_DIGITS = 3  # of nats per token that count: the ones behind depend on what shares a batch with a text


class Usual(NamedTuple):
    """What references have, in nats per token."""

    median: float
    deviation: float


TLDR = (
    *(Usual(-7.13, 0.75), Usual(-7.32, 0.50)),
    *(Usual(-9.03, 0.77), Usual(-8.75, 0.44)),
    *(Usual(1.34, 0.41), Usual(1.11, 0.25)),
)  # in the order of VALUES
ARXIV = (
    *(Usual(-7.74, 0.41), Usual(-6.97, 0.34)),
    *(Usual(-8.44, 0.36), Usual(-7.99, 0.25)),
    *(Usual(0.51, 0.13), Usual(0.74, 0.17)),
)


class Judgement(NamedTuple):
    """What a judge makes of two texts about a source.

    Attributes:
        values: The six numbers, in the order of `VALUES`, in nats per token.
        shortfall: See (shortfall), in standard deviations.
        cut: Whether the judge read only a part of the texts.
    """

    values: tuple[float, ...]
    shortfall: float
    cut: bool = False

    @property
    def sense(self) -> float:
        """The share that is paid, in [0, 1]."""
        return ramp(self.shortfall, NOTHING, ALL)


NOT_JUDGED = Judgement((0.0,) * len(VALUES), NOTHING)


def judged(judge: TextJudge, source: str, texts: tuple[str, str], usual: Sequence[Usual]) -> Judgement:
    """Ask a judge about two texts, once."""
    after = _AFTER.format(source)
    found = judge.log_likelihoods([after, after, _ALONE, _ALONE], [*texts, *texts])
    gains = (
        after.mean - alone.mean if alone.nats else -math.inf for after, alone in zip(found, found[2:], strict=False)
    )
    values = tuple(map(_nats, (*(likelihood.lowest(SHARE) for likelihood in found), *gains)))
    return Judgement(values, shortfall(values, usual), any(answer.cut for answer in found))


def shortfall(values: Sequence[float], usual: Sequence[Usual]) -> float:
    """By how many standard deviations the numbers are below the medians, all together."""
    return sum(max(0.0, median - value) / deviation for value, (median, deviation) in zip(values, usual, strict=True))


def _nats(value: float) -> float:
    return round(value, _DIGITS) if math.isfinite(value) else value
