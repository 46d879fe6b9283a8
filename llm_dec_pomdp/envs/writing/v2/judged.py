"""What v2 asks a frozen language model about two texts, beside what v1 asks of their words.

| property | measured per word, in nats | stops |
|---|---|---|
| plausibility | log p(text after source), on average | likely words in any order |
| | log p(text after source), where the texts are weakest | damage; sentences that do not go on |
| fluency | log p(text), where the texts are weakest | damaged copies, which the source makes plausible |
| information | log p(text after source) - log p(text), of either text | fluent text about something else |

Each has a linear ramp, and the ramps are multiplied. A ramp is 1 from a value on that nearly all references reach, and
0 from `WIDTH` nats below. So a text that pleases the model further earns no more, and what a model writes itself is
likelier than any of them. Copies and repetitions, which it also finds likely, are v1's business.

Damage is in few places: where a sentence goes on as another one does, few words are unlikely and the rest is as likely
as ever. So where they are weakest is the mean of log p over the words of both texts that weights each by itself (the
contraharmonic mean). What was to be expected, as in counting, weighs nothing and makes up for nothing. Nor do signs:
log p of a word is that of all its tokens and of the signs around it.

The values are those that 95 % of the references of training rows reach (90 posts, 48 abstracts), and all of them for
fluency, with SmolLM2-135M-Instruct, to a tenth below. Another model is a measure of its own.
"""

from __future__ import annotations

import itertools
import math
import re
from bisect import bisect
from typing import NamedTuple

from ....types import Likelihood, TextJudge
from ...judging import JudgeError
from ..v1.quality import ramp

PROPERTIES: tuple[str, ...] = ("plausibility", "fluency", "information")
WIDTH = 0.5  # nats per word from nothing to all
_AFTER, _ALONE = "Text:\n\n{}\n\nIn other words:\n", "In other words:\n"
_DIGITS = 3  # of nats per word that count: the ones behind depend on what shares a batch with a text


class Measures(NamedTuple):
    """Values of two texts, in nats per word; the first three are of both together."""

    after: float
    after_weakest: float
    alone_weakest: float
    gain_first: float
    gain_second: float


TLDR = Measures(after=-5.2, after_weakest=-7.7, alone_weakest=-10.5, gain_first=0.7, gain_second=0.9)
ARXIV = Measures(after=-4.8, after_weakest=-7.2, alone_weakest=-8.9, gain_first=0.3, gain_second=0.6)


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


NOT_JUDGED = Judgement(dict.fromkeys(PROPERTIES, 0.0), Measures(0.0, 0.0, 0.0, 0.0, 0.0))


def judged(judge: TextJudge, source: str, texts: tuple[str, str], lowest: Measures) -> Judgement:
    """Ask a judge about two texts, once.

    Raises:
        JudgeError: It does not say where in a text its tokens begin.
    """
    after = _AFTER.format(source)
    found = judge.log_likelihoods([after, after, _ALONE, _ALONE], [*texts, *texts])
    first, second, first_alone, second_alone = map(by_word, [*texts, *texts], found)
    measures = Measures(
        after=_nats(_mean(first + second)),
        after_weakest=_nats(_weakest(first + second)),
        alone_weakest=_nats(_weakest(first_alone + second_alone)),
        gain_first=_nats(_mean(first) - _mean(first_alone)),
        gain_second=_nats(_mean(second) - _mean(second_alone)),
    )
    return Judgement(properties(measures, lowest), measures, any(answer.cut for answer in found))


def by_word(text: str, likelihood: Likelihood) -> list[float]:
    """log p of each word of a text that was read, in nats.

    Words stand between spaces. What has no letter or digit is none, and counts to the word behind it.

    Raises:
        JudgeError: Nobody says where tokens begin.
    """
    if len(likelihood.starts) != len(likelihood.nats):
        raise JudgeError(
            "the judge does not say where in a text its tokens begin, so no word has a likelihood; take a model whose "
            "tokenizer is a fast one, or a server that sends `text_offset`"
        )
    ends = [found.end() for found in re.finditer(r"\S+", text) if re.search(r"\w", found[0])]
    tokens = zip(likelihood.starts, likelihood.nats, strict=True)
    words = itertools.groupby(tokens, lambda token: min(bisect(ends, token[0]), len(ends) - 1))
    return [math.fsum(nats for _, nats in word) for _, word in words] if ends else []


def properties(measures: Measures, lowest: Measures) -> dict[str, float]:
    """The three properties, each in [0, 1]."""
    found = Measures(*(ramp(value, end - WIDTH, end) for value, end in zip(measures, lowest, strict=True)))
    plausibility, information = found.after * found.after_weakest, found.gain_first * found.gain_second
    return dict(zip(PROPERTIES, (plausibility, found.alone_weakest, information), strict=True))


def _weakest(nats: list[float]) -> float:
    """The contraharmonic mean: each word is weighted by itself."""
    return math.fsum(x * x for x in nats) / math.fsum(nats) if any(nats) else _mean(nats)


def _mean(nats: list[float]) -> float:
    return math.fsum(nats) / len(nats) if nats else -math.inf


def _nats(value: float) -> float:
    """As many digits as count; the lowest for a text without words, about which nothing can be said."""
    return round(value, _DIGITS) if math.isfinite(value) else -math.inf
