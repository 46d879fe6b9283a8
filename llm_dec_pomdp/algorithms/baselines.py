"""The prompting baselines of arXiv:2508.04652: the same models, untrained, under four communication protocols."""

from __future__ import annotations

from .base import Algorithm


class Single(Algorithm):
    """One model writes all parts."""

    protocol = "centralized"


class Concat(Algorithm):
    """Agents write in parallel and know nothing of each other; the parts are put together (naive concatenation)."""


class Sequential(Algorithm):
    """Agents write one after the other and see what was written before."""

    protocol = "sequential"


class Discussion(Algorithm):
    """Agents exchange drafts once, then write in parallel (one-round discussion)."""

    protocol = "discussion"
