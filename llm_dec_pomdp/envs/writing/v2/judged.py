"""Informativeness and fluency of two texts, as a frozen language model (the LLM judge) measures them.

Informativeness. The judge reads both texts and then the source. The gain of a token of the source is

    log p(token | both texts) - mean of log p(token | other source) over four other sources

Another source is read in place of the texts, cut into two halves. Tokens of the source inside a trigram that a text
copied have a gain of 0, so that copies have no gain. The comparison ignores spaces, punctuation and case. The sum of
the gains is divided by the number of all tokens of the source.

Fluency. log p of a text depends mostly on its words, since names and terms are unlikely in any text. So fluency
measures word order: log p of the text minus log p of its words backwards, per word. Pieces between spaces without a
letter or digit are left out.

Both factors are linear between two values, which were set with the judge SmolLM2-135M-Instruct. A factor is 1 from the
value that 95 % of the references of training rows reach. Informativeness is 0 at a fifth of this value, fluency at
`WIDTH` nats below it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import NamedTuple

from ....types import TextJudge
from ...judging import JudgeError
from .. import reward

FACTORS: tuple[str, ...] = ("informativeness", "fluency")
CONTRASTS = 4
WIDTH = 0.5  # nats per word between fluency 0 and 1
LOWEST = 0.2  # share of the full gain at which informativeness is 0
_RUN = 3  # words in a row that count as copied
_SHOWN = "Summaries of a post:\n\n{}\n\n{}\n\nThe post:\n\n"
_BEFORE = "In other words:\n"
_DIGITS = 3  # of nats; further digits depend on the other texts of a batch
_WORD = re.compile(r"[^\W_]+")


class Measures(NamedTuple):
    """Measurements of two texts about a source, in nats.

    Attributes:
        gain: Mean gain of the tokens of the source, see the module.
        order: log p of a text minus log p of its words backwards, per word; the lower value of the two texts. 0 for a
            text without words.
    """

    gain: float = 0.0
    order: float = 0.0


TLDR = Measures(gain=0.16, order=2.5)
ARXIV = Measures(gain=0.29, order=2.7)


def measure(judge: TextJudge, source: str, texts: tuple[str, str], others: Sequence[str]) -> tuple[Measures, bool]:
    """Return the measurements of two texts about a source, and whether the LLM judge read only a part of them.

    Args:
        judge: The language model; one call returns all log-probabilities.
        source: The source text.
        texts: The texts of both agents.
        others: Other sources, for the contrasts.

    Raises:
        JudgeError: The judge does not return `Likelihood.starts`.
    """
    halves = [(words[: len(words) // 2], words[len(words) // 2 :]) for words in map(str.split, others)]
    shown = [_SHOWN.format(*texts), *(_SHOWN.format(" ".join(first), " ".join(second)) for first, second in halves)]
    forwards = [[piece for piece in text.split() if _WORD.search(piece)] for text in texts]
    ordered = [" ".join(words) for pieces in forwards for words in (pieces, pieces[::-1])]
    found = judge.log_likelihoods([*shown, *[_BEFORE] * len(ordered)], [*[source] * len(shown), *ordered])
    nats = [math.fsum(likelihood.nats) for likelihood in found[len(shown) :]]
    gaps = [(nats[2 * n] - nats[2 * n + 1]) / len(pieces) if pieces else 0.0 for n, pieces in enumerate(forwards)]
    given, *contrasts = found[: len(shown)]
    if len(given.starts) != len(given.nats):
        raise JudgeError(
            f"judge {judge.name!r} returns {len(given.starts)} starts for {len(given.nats)} tokens of a text; return "
            "`Likelihood.starts`, the index of the first character of each token"
        )
    copied = _copied(source, texts)
    gains = [
        own - math.fsum(bases) / len(bases)
        for own, start, end, *bases in zip(
            given.nats,
            given.starts,
            (*given.starts[1:], len(source)),
            *(contrast.nats for contrast in contrasts),
            strict=False,
        )
        if not any(copied[start:end])
    ]
    gain = math.fsum(gains) / max(len(given.nats), 1)
    return Measures(round(gain, _DIGITS), round(min(gaps), _DIGITS)), any(likelihood.cut for likelihood in found)


def factors(measures: Measures, full: Measures) -> dict[str, float]:
    """Return informativeness and fluency, each in [0, 1]."""
    gain = reward.ramp(measures.gain, LOWEST * full.gain, full.gain)
    order = reward.ramp(measures.order, full.order - WIDTH, full.order)
    return dict(zip(FACTORS, (gain, order), strict=True))


def _copied(source: str, texts: Sequence[str]) -> bytearray:
    """Return 1 for each character of the source in a run of `_RUN` words that also occurs in a text, else 0."""
    letters = " ".join("".join(_WORD.findall(text.lower())) for text in texts)
    words = list(_WORD.finditer(source))
    copied = bytearray(len(source))
    for run in zip(*(words[n:] for n in range(_RUN)), strict=False):
        if "".join(word[0].lower() for word in run) in letters:
            start, end = run[0].start(), run[-1].end()
            copied[start:end] = b"\1" * (end - start)
    return copied
