"""Checks of the options of research-v0."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, get_args

from ....registries import nearest

Grammar = Literal["free", "choice"]
MOST = 64  # invocations


def check_options(
    grammar: str, most: int, context: int | None, kinds: Sequence[str], costs: Mapping[str, float]
) -> None:
    """Refuse impossible options with a ValueError that names the option and its value."""
    if grammar not in get_args(Grammar):
        raise ValueError(f"grammar is {grammar!r}; {nearest(str(grammar), get_args(Grammar))}")
    if isinstance(most, bool) or most not in range(1, MOST + 1):
        raise ValueError(f"max_invocations is {most!r}; sub-agents may be asked 1 to {MOST} times")
    if context is not None and (isinstance(context, bool) or context < 1):
        raise ValueError(f"context is {context!r}; it counts words, at least 1, or is None for all")
    for name, cost in costs.items():
        if not 0 <= cost < float("inf"):
            raise ValueError(f"{name} is {cost!r}; a cost is finite and at least 0")
    if isinstance(kinds, str) or len(set(kinds)) < len(kinds) or "main" in kinds:
        raise ValueError(
            f"specialists is {kinds!r}; give a list of different parts of the corpus, such as "
            '["people+towns", "companies+works"]'
        )
