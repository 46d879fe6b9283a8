"""Fenced blocks: where they begin and end, and what they hold."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_dec_pomdp.envs import fences
from llm_dec_pomdp.envs.coding import analysis

DOCUMENTED = 'def f(x):\n    """Add one.\n\n```python\nf(1)\n```\n"""\n    return x + 1\n'


def parses(source: str) -> bool:
    return analysis.parse(source) is not None


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("no fence", []),
        ("a ```b``` c", []),
        ("x = 1 ```\ny\n", []),
        ("    ```\n    x\n", []),
        ("``\nx\n``", []),
        ("```python\nx\n```\nand", ["x\n"]),
        ("~~~ python\nx\n~~~", ["x\n"]),
        ("```\r\nx\r\n```\r\n", ["x\n"]),
        ("  ```py\n  x\n    y\n  ```", ["x\n  y\n"]),
        ("```\nx\n~~~\ny\n```", ["x\n~~~\ny\n"]),
        ("````\nx\n```\ny\n````", ["x\n```\ny\n"]),
        ("```\nx\n`````", ["x\n"]),
        ("```\nx\n```python\ny\n```", ["x\n```python\ny\n"]),
        ("```\nx", ["x\n"]),
        ("```\nx\n```\n```\ny\n```", ["x\n", "y\n"]),
        ("```\n```\n", [""]),
    ],
)
def test_fences_are_those_of_commonmark(text: str, found: list[str]) -> None:
    assert fences.blocks(text, lambda block: False) == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (f"```python\n{DOCUMENTED}```\nDone.", [DOCUMENTED]),
        (f"~~~\n{DOCUMENTED}~~~", [DOCUMENTED]),
        (f"```\n{DOCUMENTED}```\n```\n{DOCUMENTED}```", [DOCUMENTED, DOCUMENTED]),
        ("```\nx = (\n```\nOr:\n```\nx = 1\n```", ["x = (\n", "x = 1\n"]),
        (f"```\n{DOCUMENTED}", [DOCUMENTED + "\n"]),
        ("```\nx = 1```\nDone.", ["x = 1\n"]),
        ("```\nx = 1  # see ```\ny = 2\n```", ["x = 1  # see ```\ny = 2\n"]),
    ],
)
def test_a_fence_within_a_program_does_not_cut_it(text: str, found: list[str]) -> None:
    assert fences.blocks(text, parses) == found


@given(st.lists(st.sampled_from(["```", "~~~~", "\n", " ", "```py\n", "x", "(", '"""'])).map("".join))
def test_blocks_hold_lines_of_the_text_in_order(text: str) -> None:
    rest = iter(line.strip(" ") for line in text.split("\n"))
    for block in fences.blocks(text, parses):
        assert all(any(line.strip(" ") in other for other in rest) for line in block.splitlines())
