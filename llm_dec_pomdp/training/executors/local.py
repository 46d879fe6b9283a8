"""No workers: policies live in the process that trains them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...agents.base import Team
from ...agents.loading import load_team


class Local:
    """This process: models of like size share its cores, those on different devices work at the same time."""

    def load_team(self, agents: Sequence[str], model: str = "builtin:tiny", **how: Any) -> Team:
        """See `Executor`."""
        return load_team(agents, model, **how)

    def __enter__(self) -> Local:
        return self

    def __exit__(self, *exc: object) -> None:
        """Nothing was started."""
