"""A run that several tests compare others with."""

from __future__ import annotations

from typing import Any

import pytest
from placing import hierarchy, ran


@pytest.fixture(scope="session")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The hierarchy, trained in this process from beginning to end."""
    return ran(hierarchy(), tmp_path_factory.mktemp("whole"), "local")
