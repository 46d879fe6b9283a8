"""The prompting baselines of arXiv:2508.04652: the same models, untrained, under four communication protocols."""

from __future__ import annotations

from .base import Algorithm


class Single(Algorithm):
    """A single agent, which writes all parts."""

    protocol = "centralized"


class Concat(Algorithm):
    """Agents act in parallel without messages; their parts are concatenated (naive concatenation)."""


class Sequential(Algorithm):
    """Agents act one after the other, and each sees the earlier actions."""

    protocol = "sequential"


class Discussion(Algorithm):
    """Agents exchange one draft each, then act in parallel (one-round discussion)."""

    protocol = "discussion"
