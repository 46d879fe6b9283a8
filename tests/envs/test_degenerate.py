"""Degenerate strategies receive what the manuals state; `scripts/degenerate.py` has the figures of all rows."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).resolve().parents[2] / "scripts"))
from degenerate import FAMILIES, measured

Bounds = Mapping[str, tuple[float, float]]  # beginning of the name of a strategy -> % of the maximum

CODE_V0: Bounds = {
    "references|aux: (wrapper|answer)|both|main: aux returns": (99, 100),
    "nobody: two stubs": (37, 38),
    "main: aux is not called": (62, 63),
    "aux: thin": (75, 75),
}
CODE_V1: Bounds = {
    "references|main: (main checks|aux returns)|aux: (wrapper|answer)": (99, 100),
    "nobody": (0, 38),
    "main: (aux is not|the value|errors|main falls)": (60, 63),
    "aux: thin": (75, 75),
    "both": (85, 100),
}
WRITING_V0: Bounds = {"references": (99, 100), "one|list|connectives|copy|something": (40, 100)}
BOUNDS: Mapping[str, Mapping[str, Bounds]] = {
    "code": {
        "humaneval-v0": CODE_V0,
        "humaneval-v1": CODE_V1,
        "coophumaneval-v0": CODE_V0,
        "coophumaneval-v1": CODE_V1,
        "coophumaneval-v2": {"references": (100, 100), "nobody|main:|aux|both|main with": (0, 40)},
    },
    "writing": {
        "tldr-v0": WRITING_V0,
        "arxiv-v0": WRITING_V0,
        "tldr-v1": {
            "references|spliced": (60, 100),
            "one sentence|list|connectives|copy|something|first is|second is|filler after every 4th|filled|half": (
                0,
                20,
            ),
            "one fixed|runs of the|.*(shuffled source|source words|shuffled reference)|template|every 4th": (40, 100),
        },
        "arxiv-v1": {
            "references|spliced": (60, 100),
            "one (sentence|fixed text and 50 copied)|list|connectives|copy|something|first|second": (0, 30),
            "filler after every 4th|runs|template|every 4th": (0, 30),
            ".*(shuffled source|random source words|shuffled reference)": (40, 100),
        },
    },
    "software": {
        "classeval-v0": {"references": (99, 100), "empty": (0, 0), "all authors": (20, 35), "all but|second": (20, 40)}
    },
    "modules": {"modules-v0": {"references": (99, 100), "empty|all authors": (0, 2), "all but|the first": (0, 45)}},
    "memory": {"memory-v0": {"silent writer and|.*(all|30) values": (0, 0), ".*first value": (0, 40)}},
    "calls": {"calls-v0": {"dispatcher": (0, 0), "specialists": (0, 50)}},
}


@pytest.mark.parametrize(
    ("family", "rows"),
    [
        *(pytest.param(family, 4, marks=pytest.mark.slow) for family in ("code", "software", "modules")),
        *((family, 12) for family in ("writing", "memory", "calls")),
    ],
)
def test_strategies_receive_what_the_manuals_state(family: str, rows: int) -> None:
    for env, strategies in FAMILIES[family](None):
        name, found = env.metadata["name"], measured(env, strategies, rows)
        for pattern, (low, high) in BOUNDS[family][name].items():
            values = {strategy: value for strategy, value in found.items() if re.match(pattern, strategy)}
            assert values
            assert {s: v for s, v in values.items() if not low - 1e-6 <= v <= high + 1e-6} == {}, name
