from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_dec_pomdp.seeding import derive, generator, uniforms

PINNED = {
    (0,): 7210762507766007076,
    (0, "rollout", 3, "task/1", 0): 7674910105370044385,
    (-1, "a"): 340285108693421050,
    (2**70, "\ud800"): 1488954393373062983,
}
labels = st.lists(st.integers() | st.text(max_size=8), max_size=4)


@pytest.mark.parametrize("address", PINNED, ids=repr)
def test_known_values(address: tuple[int | str, ...]) -> None:
    assert derive(*address) == PINNED[address]  # type: ignore[arg-type]


@pytest.mark.parametrize("hash_seed", ["0", "12345"])
def test_same_value_in_another_process(hash_seed: str) -> None:
    code = "from llm_dec_pomdp.seeding import derive; print(derive(0, 'rollout', 3, 'task/1', 0))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert int(done.stdout) == PINNED[(0, "rollout", 3, "task/1", 0)]


@given(st.integers(), labels)
def test_derived_seeds_are_63_bit(seed: int, address: list[int | str]) -> None:
    assert 0 <= derive(seed, *address) < 2**63


@given(st.integers(), labels, labels)
def test_different_addresses_give_different_seeds(seed: int, first: list[int | str], second: list[int | str]) -> None:
    assert (derive(seed, *first) == derive(seed, *second)) == (first == second)


@pytest.mark.parametrize(
    ("first", "second"), [((1,), ("1",)), (("ab",), ("a", "b")), (("a", "b"), ("b", "a")), ((), ("",)), ((0,), (0, 0))]
)
def test_addresses_are_not_confused(first: tuple[int | str, ...], second: tuple[int | str, ...]) -> None:
    assert derive(7, *first) != derive(7, *second)


def test_a_generator_follows_from_its_address() -> None:
    before = derive(5, "x")
    draws = generator(5, "x").random(4)
    assert np.array_equal(generator(5, "x").random(4), draws)
    assert not np.array_equal(generator(5, "y").random(4), draws)
    assert not np.array_equal(generator(6, "x").random(4), draws)
    assert derive(5, "x") == before


def test_known_draws() -> None:
    assert uniforms(7, 2).tolist() == pytest.approx([0.46881748695593284, 0.42614583623918467], abs=1e-15)


def test_a_longer_call_begins_with_the_same_draws() -> None:
    assert np.array_equal(uniforms(11, 3), uniforms(11, 10)[:3])


def test_uniforms_lie_in_the_unit_interval() -> None:
    draws = uniforms(1, 10_000)
    assert draws.min() >= 0.0
    assert draws.max() < 1.0
    assert draws.mean() == pytest.approx(0.5, abs=0.02)


def test_global_numpy_state_is_left_alone() -> None:
    before = repr(np.random.get_state())  # noqa: NPY002  # the point is that nobody else touches it
    generator(1).random()
    uniforms(1, 3)
    assert repr(np.random.get_state()) == before  # noqa: NPY002
