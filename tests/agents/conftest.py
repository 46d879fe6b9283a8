"""Saved models, for tests that load teams from them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator

import pytest
from models import save_model
from servers import Server, serving


@pytest.fixture(scope="session")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], str]:
    """`saved(hidden)` -> the folder of a model of that width, with a tokenizer of its own."""
    return functools.cache(lambda hidden: save_model(tmp_path_factory.mktemp("saved"), seed=3, hidden_size=hidden))


@pytest.fixture(scope="session")
def folder(saved: Callable[[int], str]) -> str:
    return saved(16)


@pytest.fixture
def server() -> Iterator[Server]:
    """A server of the OpenAI kind."""
    yield from serving()
