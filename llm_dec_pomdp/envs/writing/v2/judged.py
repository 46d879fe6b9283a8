"""What v2 asks a frozen language model about two texts, beside what v1 asks of their words.

| property | measured per word, in nats | stops |
|---|---|---|
| plausibility | log p(text after source) | words that do not go on from the source; signs in place of words |
| fluency | log p(text) - log p(its words backwards) | damage; likely words in any order, lists, counting |
| information | log p(text after source) - log p(text) | fluent text about something else |

The lower of the two texts counts, as in v1, so that neither makes up for the other. Fluency is asked of both together
too, of which more is known than of a short text. Each value has a linear ramp, and the ramps are multiplied. A ramp is
1 from a value on that nearly all references reach, and 0 from `WIDTH` nats below. So a text that pleases the model
further earns no more, and what a model writes itself is likelier than any of them. Copies and repetitions, which it
also finds likely, are v1's business.

How likely a text is depends on its words, and names and terms are unlikely anywhere. So fluency compares a text with
one of the same words: what is left is their order, in which references differ little and damage shows.

Words stand between spaces. What has no letter or digit is none, so its nats count to the words, and signs make up for
nothing.

The values are those that 95 % of the references of training rows reach (90 posts, 48 abstracts) with
SmolLM2-135M-Instruct, to a tenth below. Another model is a measure of its own.
"""

from __future__ import annotations

import math
import re
from typing import NamedTuple

from ....types import Likelihood, TextJudge
from ..v1.quality import ramp

PROPERTIES: tuple[str, ...] = ("plausibility", "fluency", "information")
WIDTH = 0.5  # nats per word from nothing to all
_AFTER, _ALONE = "Text:\n\n{}\n\nIn other words:\n", "In other words:\n"
_DIGITS = 3  # of nats per word that count: the ones behind depend on what shares a batch with a text


class Measures(NamedTuple):
    """Values of two texts, in nats per word: the lower of each, but `order_both` of both together."""

    after: float
    order: float
    order_both: float
    gain: float


TLDR = Measures(after=-5.6, order=2.5, order_both=2.8, gain=0.7)
ARXIV = Measures(after=-5.4, order=2.7, order_both=2.9, gain=0.3)


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


NOT_JUDGED = Judgement(dict.fromkeys(PROPERTIES, 0.0), Measures(0.0, 0.0, 0.0, 0.0))


def judged(judge: TextJudge, source: str, texts: tuple[str, str], lowest: Measures) -> Judgement:
    """Ask a judge about two texts, once."""
    after = _AFTER.format(source)
    backwards = [" ".join(reversed(text.split())) for text in texts]
    asked = [*texts, *texts, *backwards]
    found = judge.log_likelihoods([after, after, *[_ALONE] * 4], asked)
    counted = [_counted(text, likelihood) for text, likelihood in zip(asked, found, strict=True)]
    given, alone, reverse = counted[:2], counted[2:4], counted[4:]
    measures = Measures(
        after=_nats(min(map(_per_word, given))),
        order=min(map(_gap, alone, reverse)),
        order_both=_nats(_per_word(*alone) - _per_word(*reverse)),
        gain=min(map(_gap, given, alone)),
    )
    return Judgement(properties(measures, lowest), measures, any(answer.cut for answer in found))


def properties(measures: Measures, lowest: Measures) -> dict[str, float]:
    """The three properties, each in [0, 1]."""
    found = Measures(*(ramp(value, end - WIDTH, end) for value, end in zip(measures, lowest, strict=True)))
    return dict(zip(PROPERTIES, (found.after, found.order * found.order_both, found.gain), strict=True))


def _counted(text: str, likelihood: Likelihood) -> tuple[float, int]:
    """log p of what was read of a text, in nats, and its words."""
    read = text if likelihood.read is None else likelihood.read
    return math.fsum(likelihood.nats), sum(1 for piece in read.split() if re.search(r"\w", piece))


def _per_word(*counted: tuple[float, int]) -> float:
    nats, words = map(sum, zip(*counted, strict=True))
    return nats / words if words else -math.inf


def _gap(text: tuple[float, int], other: tuple[float, int]) -> float:
    return _nats(_per_word(text) - _per_word(other))


def _nats(value: float) -> float:
    """As many digits as count; the lowest for a text without words, about which nothing can be said."""
    return round(value, _DIGITS) if math.isfinite(value) else -math.inf
