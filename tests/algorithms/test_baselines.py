from __future__ import annotations

import subprocess
import sys

import pytest

from llm_dec_pomdp.agents import Sampling, Scripted, Team
from llm_dec_pomdp.algorithms.base import Algorithm
from llm_dec_pomdp.algorithms.baselines import Concat, Discussion, Sequential, Single
from llm_dec_pomdp.algorithms.registration import algorithms, build_algorithm, find_algorithm, register_algorithm
from llm_dec_pomdp.envs.wrappers import PROTOCOLS
from llm_dec_pomdp.registries import Registry

SAMPLING = Sampling(temperature=0.5, max_new_tokens=7)
ECHO = Scripted(lambda agent, history: f"{agent} after {' / '.join(m.text for m in history)}")
BASELINES: list[tuple[str, type[Algorithm], str]] = [
    ("single", Single, "centralized"),
    ("concat", Concat, "parallel"),
    ("sequential", Sequential, "sequential"),
    ("discussion", Discussion, "discussion"),
]


class Mine(Algorithm):
    """A third-party algorithm."""


# --- baselines -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "kind", "protocol"), BASELINES)
def test_baselines_have_their_name_and_protocol_and_do_not_learn(
    name: str, kind: type[Algorithm], protocol: str
) -> None:
    assert kind.protocol == protocol
    assert find_algorithm(name).load() is kind
    assert not kind.learns()


@pytest.mark.parametrize("name", sorted(algorithms))
def test_every_algorithm_plays_under_a_protocol_that_exists(name: str) -> None:
    assert find_algorithm(name).protocol in PROTOCOLS


# --- names ------------------------------------------------------------------------------------------------------------


def test_a_path_needs_no_registration() -> None:
    assert find_algorithm("llm_dec_pomdp.algorithms.baselines:Concat").load() is Concat


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Registry:
    """The registry, put back afterwards."""
    monkeypatch.setattr(algorithms, "_specs", dict(algorithms._specs))
    monkeypatch.setattr(algorithms, "_announced", None)
    return algorithms


def test_a_registered_algorithm_is_built_by_name(names: Registry) -> None:
    register_algorithm("acme/mine", Mine)
    team = Team({"a": ECHO})
    built = build_algorithm("acme/mine", {}, team, SAMPLING)
    assert isinstance(built, Mine)
    assert built.team is team


def test_knowing_the_names_does_not_load_torch() -> None:
    code = (
        "import sys; from llm_dec_pomdp.algorithms.registration import algorithms, find_algorithm;"
        "find_algorithm('single').load(); print(sorted(algorithms)); sys.exit('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "magrpo" in done.stdout
