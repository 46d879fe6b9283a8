"""Options of research-v0 that cannot be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, get_args

from ...registries import nearest

Grammar = Literal["free", "choice"]
MOST = 64  # invocations


def check_options(options: Mapping[str, Any]) -> None:
    """Refuse what cannot be.

    Raises:
        ValueError: The message names the option and its value.
    """
    if options["grammar"] not in get_args(Grammar):
        raise ValueError(f"grammar is {options['grammar']!r}; {nearest(str(options['grammar']), get_args(Grammar))}")
    most, context, kinds = options["max_invocations"], options["context"], options["specialists"]
    if isinstance(most, bool) or most not in range(1, MOST + 1):
        raise ValueError(f"max_invocations is {most!r}; sub-agents may be asked 1 to {MOST} times")
    if context is not None and (isinstance(context, bool) or context < 1):
        raise ValueError(f"context is {context!r}; it counts words, at least 1, or is None for all")
    for name in ("cost_per_invocation", "cost_per_turn"):
        if not 0 <= options[name] < float("inf"):
            raise ValueError(f"{name} is {options[name]!r}; a cost is finite and at least 0")
    if isinstance(kinds, str) or len(set(kinds)) < len(kinds) or "main" in kinds:
        raise ValueError(
            f"specialists are {kinds!r}; give a list of different parts of the corpus, such as "
            '["people+towns", "companies+works"]'
        )
