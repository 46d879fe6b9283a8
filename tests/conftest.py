"""What all tests share: threads, the folder of public test data, and hypothesis without a clock or a database."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

REPOSITORY = Path(__file__).resolve().parents[1]

settings.register_profile(
    "suite",
    database=None,
    deadline=None,
    derandomize=True,
    max_examples=60,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("suite")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--data", help="folder of public test data with data/ and golden/ (or LLM_DEC_POMDP_DATA)")


def pytest_configure() -> None:
    """Processes that run tests at the same time share the cores; said before anything loads torch."""
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    if workers > 1:
        os.environ.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // workers)))
    if "PYTEST_XDIST_WORKER" in os.environ:  # Ctrl-C ends a worker at once, whatever its test is doing
        signal.signal(signal.SIGINT, lambda number, frame: os._exit(128 + number))


@pytest.fixture(scope="session")
def shared_data(request: pytest.FixtureRequest) -> Path:
    """The folder with `data/` and `golden/`."""
    named = request.config.getoption("--data") or os.environ.get("LLM_DEC_POMDP_DATA")
    folder = Path(named) if named else REPOSITORY.parent / "shared"
    if not folder.is_dir():
        pytest.skip(
            f"no public test data in {str(folder)!r}: name the folder with data/ and golden/ "
            "by --data or LLM_DEC_POMDP_DATA"
        )
    return folder


@pytest.fixture(scope="session")
def golden(shared_data: Path) -> Callable[[str], list[dict[str, Any]]]:
    """`golden("tldr")` -> rows with `completions` and the published `reward`."""

    def read(name: str) -> list[dict[str, Any]]:
        path = shared_data / "golden" / f"{name}.jsonl"
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]

    return read
