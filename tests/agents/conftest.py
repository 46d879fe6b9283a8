"""Saved models, for tests that load teams from them."""

from __future__ import annotations

import functools
from collections.abc import Callable

import pytest
from fake_vllm import FakeVLLM
from models import save_model
from servers import Server


@pytest.fixture(scope="session")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], str]:
    """`saved(hidden)` -> the folder of a model of that width, with a tokenizer of its own."""
    return functools.cache(lambda hidden: save_model(tmp_path_factory.mktemp("saved"), seed=3, hidden_size=hidden))


@pytest.fixture(scope="session")
def folder(saved: Callable[[int], str]) -> str:
    return saved(16)


@pytest.fixture
def vllm(server: Server) -> FakeVLLM:
    """What that server does, as one of vLLM."""
    fake = FakeVLLM()
    server.answer = lambda body, number: fake.answer(server.paths[number], body)
    return fake
