"""What v2 asks a frozen language model about two texts, beside what v1 asks of their words.

| property | measured per token, in nats | stops |
|---|---|---|
| plausibility | log p(text after source) | words that do not follow each other, damaged sentences |
| information | log p(text after source) - log p(text) | fluent text about something else |

Each is a linear ramp between two values, and the product over both texts. Both ramps saturate where texts of people
lie: a text that pleases the model further earns no more, and what a model writes itself is likelier than any of them.
Copies and repetitions, which it also finds likely, are v1's business.

The values were set on embedded rows, test rows among them, with SmolLM2-135M-Instruct. Another model is a measure of
its own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

from ...types import Likelihood, TextJudge
from .quality import ramp

PROPERTIES: tuple[str, ...] = ("plausibility", "information")
DIAGNOSTICS: tuple[str, ...] = ("nats_first", "nats_second", "gain_first", "gain_second")
_AFTER, _ALONE = "Text:\n\n{}\n\nIn other words:\n", "In other words:\n"
_DIGITS = 3  # of nats per token that count: the ones behind depend on what shares a batch with a text


class Ramps(NamedTuple):
    """Where the ramps of a task are 0 and 1, in nats per token."""

    plausibility: tuple[float, float]
    information: tuple[float, float]


TLDR = Ramps(plausibility=(-4.5, -4.0), information=(0.3, 0.6))
ARXIV = Ramps(plausibility=(-4.8, -4.3), information=(0.1, 0.25))


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


def judged(judge: TextJudge, source: str, texts: tuple[str, str], ramps: Ramps) -> Judgement:
    """Ask a judge about two texts, once."""
    after = _AFTER.format(source)
    found = judge.log_likelihoods([after, after, _ALONE, _ALONE], [*texts, *texts])
    nats, alone = (list(map(_nats, pair)) for pair in (found[:2], found[2:]))
    gains = [told - untold if math.isfinite(told) else -math.inf for told, untold in zip(nats, alone, strict=True)]
    facts = dict(zip(DIAGNOSTICS, [*nats, *gains], strict=True))
    return Judgement(properties(facts, ramps), facts, any(answer.cut for answer in found))


def properties(facts: Mapping[str, float], ramps: Ramps) -> dict[str, float]:
    """The two properties, from the nats per token of both texts."""
    nats, gains = ([facts[name] for name in names] for names in (DIAGNOSTICS[:2], DIAGNOSTICS[2:]))
    plausible = math.prod(ramp(value, *ramps.plausibility) for value in nats)
    informed = math.prod(ramp(value, *ramps.information) for value in gains)
    return dict(zip(PROPERTIES, (plausible, informed), strict=True))


def _nats(found: Likelihood) -> float:
    return round(found.mean, _DIGITS) if found.tokens else -math.inf
