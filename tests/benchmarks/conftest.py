"""A small suite that was run once, with the built-in model."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from filelock import FileLock

from llm_dec_pomdp.benchmarks.progress import Silent
from llm_dec_pomdp.benchmarks.runner import run_suite
from llm_dec_pomdp.benchmarks.suite import Suite, load_suite

SMALL = """
name = "small"
methods = [{ name = "single" }, { name = "concat" }, { name = "magrpo" }]
environments = [{ id = "tldr-v0" }, { id = "coophumaneval-v0" }]
models = [{ name = "builtin:tiny" }]
sampling = { max_new_tokens = 24 }
training = { steps = 2, prompts_per_step = 2, group_size = 2 }
evaluation = { items = 2, every = 1, timing = 1 }
"""


@pytest.fixture(scope="session")
def small_toml() -> str:
    """The small suite as its file says it."""
    return SMALL


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory, small_toml: str) -> Suite:
    """The small suite."""
    path = tmp_path_factory.mktemp("suite") / "small.toml"
    path.write_text(small_toml, encoding="utf-8")
    return load_suite(str(path))


@pytest.fixture(scope="session")
def run(small: Suite, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of its run, which is not to be changed; the processes of one test run share it."""
    mine = tmp_path_factory.getbasetemp()
    folder = (mine.parent if "PYTEST_XDIST_WORKER" in os.environ else mine) / "small"
    with FileLock(f"{folder}.lock"):
        if not folder.exists():
            assert all(entry.result is not None for entry in run_suite(small, folder, Silent()).entries)
    return folder
