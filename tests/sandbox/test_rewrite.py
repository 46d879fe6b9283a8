"""Rewriting of tests; tests/sandbox/test_pool.py has what counting means for a verdict."""

from __future__ import annotations

import pytest

from llm_dec_pomdp.sandbox.rewrite import rewrite_check


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ("def check(c):\n    assert c(1) == 1\n    assert c(2) == 2", 2),
        ("def check(c):\n    assert True\n    assert 1, 'always'\n    assert c(1)", 1),
        ("def check(c):\n    for i in range(9):\n        assert c(i) == i", 1),
        ("def check(c):\n    assert False", 1),
    ],
)
def test_asserts_of_a_true_constant_are_not_counted(source: str, count: int) -> None:
    assert rewrite_check(source)[1] == count
