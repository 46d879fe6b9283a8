"""Tables of a Dec-POMDP: what is read, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from llm_dec_pomdp.envs.classics.model import ModelError, embedded, read_model

SMALL = """
agents: left right   # a comment
discount: 1
states: off on
start: 0.25 0.75
actions:
wait press
wait press
observations:
dark light
1
T: * : uniform
T: press * : off : on : 1
T: press * : off : off : 0
O: * : off : 1 0
O: * : on : light * : 1
R: * : * : * : * : -1
R: press press : 1 : * : * : 5
"""


def test_wildcards_numbers_and_later_lines_are_read() -> None:
    model = read_model(SMALL, "small")
    assert model.agents == ("left", "right")
    assert model.observations == (("dark", "light"), ("o0",))
    assert model.transitions[1, 0].tolist() == [[0, 1], [0.5, 0.5]]
    assert model.transitions[0, 1].tolist() == [[0.5, 0.5], [0.5, 0.5]]
    assert model.watching[0, 0].tolist() == [[[1], [0]], [[0], [1]]]
    assert model.rewards[1, 1].tolist() == [[-1, -1], [5, 5]]
    assert [model.first(draw) for draw in (0.0, 0.2499, 0.25, 0.9999)] == [0, 0, 1, 1]
    assert model.follow(0, (1, 0), (0.3, 0.9)) == (1, (1, 0))


def test_a_model_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match="read-only"):
        read_model(SMALL, "small").rewards[0] = 1


def test_samples_follow_the_tables() -> None:
    model, random = embedded("dectiger"), np.random.default_rng(0)
    heard = [model.follow(0, (0, 0), random.random(2)) for _ in range(20_000)]
    assert {state for state, _ in heard} == {0}
    share = np.mean([observed == (0, 1) for _, observed in heard])
    assert abs(share - 0.1275) < 4 * np.sqrt(0.1275 * 0.8725 / 20_000)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("off : off : 0\n", "off : off : 0.1\n", r"'press wait' and state 'off' .*1\.1"),
        ("O: * : off : 1 0", "O: * : off : 1 -1", "'wait wait' and state 'off' .*sum to 0"),
        ("start: 0.25 0.75", "start: 0.25 0.7", r"start .*0\.95"),
        ("start: 0.25 0.75", "start: onn", "'onn'"),
        ("start: 0.25 0.75", "start: 0.2 0.2 0.6", "start has 3"),
        ("T: press * : off : on", "T: pres * : off : on", "'pres'"),
        ("light * : 1\n", "lihgt * : 1\n", "'lihgt'"),
        ("T: press * : off", "T: press : off", "'press' names 1"),
        ("T: press * : off : on : 1", "T: press * : off : on : one", "'one'"),
        ("T: * : uniform", "T: * : 1 2 3", "has 3"),
        ("start: 0.25 0.75", "", "'start:'"),
        ("wait press\nwait press", "wait press", "actions have 1"),
        ("states: off on", "states: on on", "'on on'"),
        ("discount: 1", "discount: 0.9", "'0.9'"),
        ("R: press press : 1 : * : * : 5", "R: press press : 1 : * : light o0 : 5", "'R: actions"),
        ("R: press press : 1 : * : * : 5", "R: press press : 1 : * : * : nan", "reward"),
    ],
)
def test_an_error_names_the_wrong_part_of_a_model(old: str, new: str, message: str) -> None:
    assert old in SMALL
    with pytest.raises(ModelError, match=message):
        read_model(SMALL.replace(old, new, 1), "small")
