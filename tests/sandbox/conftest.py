"""One pool of one judge for all tests that only need something judged."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from judging import HONEST

from llm_dec_pomdp.sandbox import SandboxPool


@pytest.fixture(scope="session")
def shared_pool() -> Iterator[SandboxPool]:
    with SandboxPool(workers=1) as pool:
        yield pool


@pytest.fixture
def pool(shared_pool: SandboxPool) -> Iterator[SandboxPool]:
    """The shared pool, which judges an honest program right after whatever a test ran."""
    yield shared_pool
    assert shared_pool.run([HONEST])[0].outcome == "passed"
