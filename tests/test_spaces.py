from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_dec_pomdp.spaces import FreeText


@given(st.text(alphabet=st.characters(), max_size=40))
def test_any_text_in_range_is_a_member(text: str) -> None:
    assert text in FreeText(40)


@pytest.mark.parametrize("text", ["", "\x00", "\ud800", "🙂", "\u202e", "x" * 5])
def test_odd_texts_are_members(text: str) -> None:
    assert text in FreeText(5)


@pytest.mark.parametrize("thing", ["x" * 6, b"x", None, 3, ["x"], np.zeros(1)], ids=repr)
def test_too_long_or_no_text_is_no_member(thing: Any) -> None:
    assert thing not in FreeText(5)


@pytest.mark.parametrize("length", [0, -1])
def test_a_space_without_characters_is_refused(length: int) -> None:
    with pytest.raises(ValueError, match=rf"max_length is {length}"):
        FreeText(length)


def test_samples_are_printable_and_not_empty_and_differ() -> None:
    space = FreeText(seed=0)
    samples = [space.sample() for _ in range(50)]
    assert all(sample and sample.isprintable() for sample in samples)
    assert len(set(samples[:20])) > 15
    short = FreeText(7, seed=0)
    assert all(short.sample() in short for _ in range(50))


def test_the_same_seed_gives_the_same_samples() -> None:
    space = FreeText(seed=4)
    first = [space.sample() for _ in range(5)]
    space.seed(4)
    assert [space.sample() for _ in range(5)] == first


@pytest.mark.parametrize("option", ["mask", "probability"])
def test_masks_and_probabilities_are_refused(option: str) -> None:
    with pytest.raises(ValueError, match="mask"):
        FreeText().sample(**{option: np.ones(3)})


def test_text_has_no_flat_form() -> None:
    assert not FreeText().is_np_flattenable


@pytest.mark.parametrize("other", [FreeText(6), "FreeText(5)", None])
def test_other_things_are_not_equal(other: Any) -> None:
    assert FreeText(5, seed=1) == FreeText(5, seed=2)
    assert FreeText(5) != other


@pytest.mark.parametrize("twin", [copy.deepcopy, lambda space: pickle.loads(pickle.dumps(space))])
def test_a_copy_goes_on_with_the_same_samples(twin: Any) -> None:
    space = FreeText(seed=8)
    space.sample()
    other = twin(space)
    assert other.sample() == space.sample()
