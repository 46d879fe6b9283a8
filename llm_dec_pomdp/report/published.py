"""Published returns, quoted for comparison and never mixed with measured ones."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ..benchmarks.suite import EnvironmentConfig


@dataclass(frozen=True, slots=True)
class Published:
    """A return as printed in the paper, in % of the maximum."""

    environment: str
    method: str
    models: str
    return_percent: float


SOURCE = "arXiv:2508.04652"
PUBLISHED = (
    Published("tldr-v0", "magrpo", "2 x Qwen3-1.7B", 94.5),
    Published("tldr-v0", "single", "Qwen3-4B", 36.7),
    Published("arxiv-v0", "magrpo", "2 x Qwen3-1.7B", 93.1),
    Published("humaneval-v0", "magrpo", "2 x Qwen2.5-Coder-3B", 86.7),
    Published("coophumaneval-v0", "magrpo", "2 x Qwen2.5-Coder-3B", 88.5),
)


def published(environments: Iterable[EnvironmentConfig]) -> list[Published]:
    """Return the published returns for these environments; [] if one of them has user-defined options or tasks."""
    listed = list(environments)
    sources = {source for config in listed for source in (config.tasks, config.eval_tasks) if source is not None}
    known = sources <= {"sample", "hub"} and not any(config.options for config in listed)
    ids = {config.id for config in listed}
    return [p for p in PUBLISHED if known and p.environment in ids]
