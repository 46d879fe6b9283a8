"""What v2 asks a frozen language model about two texts, beside what v1 asks of their words.

| property | measured per token, in nats | stops |
|---|---|---|
| plausibility | log p(text after source) | sentences that do not go with the source or with each other |
| fluency | log p(text) | damaged copies, which the source makes plausible |
| information | log p(text after source) - log p(text) | fluent text about something else |

Each is a linear ramp for either text, and all six are multiplied. A ramp is 1 from a value on that nearly all
references reach, and 0 from `WIDTH` nats below. So a text that pleases the model further earns no more, and what a
model writes itself is likelier than any of them. Copies and repetitions, which it also finds likely, are v1's business.

The values were set with SmolLM2-135M-Instruct on embedded training rows (40 posts, 36 abstracts): as high as 90 % for
references allows. Another model is a measure of its own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

from ....types import Likelihood, TextJudge
from ..v1.quality import ramp

PROPERTIES: tuple[str, ...] = ("plausibility", "fluency", "information")
DIAGNOSTICS: tuple[str, ...] = ("after_first", "after_second", "alone_first", "alone_second")
WIDTH = 0.4  # nats per token from nothing to all
_AFTER, _ALONE = "Text:\n\n{}\n\nIn other words:\n", "In other words:\n"
_DIGITS = 3  # of nats per token that count: the ones behind depend on what shares a batch with a text

Both = tuple[float, float]


class Measures(NamedTuple):
    """Values of (first text, second text), in nats per token."""

    plausibility: Both
    fluency: Both
    information: Both


TLDR = Measures(plausibility=(-4.3, -4.0), fluency=(-6.2, -5.2), information=(0.8, 0.6))
ARXIV = Measures(plausibility=(-4.6, -3.9), fluency=(-5.0, -4.6), information=(0.2, 0.5))


class Judgement(NamedTuple):
    """What a judge makes of two texts about a source.

    Attributes:
        properties: By name, each in [0, 1].
        facts: The measured values by name, in nats per token.
        cut: Whether the judge read only a part of them.
    """

    properties: dict[str, float]
    facts: dict[str, float]
    cut: bool


NOT_JUDGED = Judgement(dict.fromkeys(PROPERTIES, 0.0), dict.fromkeys(DIAGNOSTICS, 0.0), False)


def judged(judge: TextJudge, source: str, texts: tuple[str, str], lowest: Measures) -> Judgement:
    """Ask a judge about two texts, once."""
    after = _AFTER.format(source)
    found = judge.log_likelihoods([after, after, _ALONE, _ALONE], [*texts, *texts])
    facts = dict(zip(DIAGNOSTICS, map(_nats, found), strict=True))
    return Judgement(properties(facts, lowest), facts, any(answer.cut for answer in found))


def measured(facts: Mapping[str, float]) -> Measures:
    """Plausibility, fluency and information of both texts, from what a judge said of them."""
    first, second, first_alone, second_alone = (facts[name] for name in DIAGNOSTICS)
    gains = (_difference(first, first_alone), _difference(second, second_alone))
    return Measures((first, second), (first_alone, second_alone), gains)


def properties(facts: Mapping[str, float], lowest: Measures) -> dict[str, float]:
    """The three properties, each in [0, 1], from what a judge said of both texts."""
    pairs = zip(PROPERTIES, measured(facts), lowest, strict=True)
    return {name: math.prod(map(_ramp, found, ends)) for name, found, ends in pairs}


def _ramp(value: float, end: float) -> float:
    return ramp(value, end - WIDTH, end)


def _difference(after: float, alone: float) -> float:
    return after - alone if math.isfinite(alone) else -math.inf


def _nats(found: Likelihood) -> float:
    return round(found.mean, _DIGITS) if found.tokens else -math.inf
