from __future__ import annotations

import subprocess
import sys
from importlib import metadata
from typing import Any

import pytest
from models import Recorder

from llm_dec_pomdp.agents import RandomText, Sampling, Scripted, Team
from llm_dec_pomdp.algorithms.base import Learner, Prompting
from llm_dec_pomdp.algorithms.baselines import Concat, Discussion, Sequential, Single
from llm_dec_pomdp.algorithms.registration import algorithms, find_algorithm, register_algorithm
from llm_dec_pomdp.envs.wrappers import PROTOCOLS
from llm_dec_pomdp.registry import Registry

SAMPLING = Sampling(temperature=0.5, max_new_tokens=7)
ECHO = Scripted(lambda agent, history: f"{agent} after {' / '.join(history)}")
BASELINES: list[tuple[str, type[Prompting], str]] = [
    ("single", Single, "centralized"),
    ("concat", Concat, "parallel"),
    ("sequential", Sequential, "sequential"),
    ("discussion", Discussion, "discussion"),
]


class Mine(Prompting):
    """A third-party algorithm."""


# --- acting -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "kind", "protocol"), BASELINES)
def test_baselines_have_their_name_and_protocol_and_do_not_learn(
    name: str, kind: type[Prompting], protocol: str
) -> None:
    assert kind.protocol == protocol
    assert find_algorithm(name).load() is kind
    assert not isinstance(kind(Team({"agent_0": ECHO}), SAMPLING), Learner)


@pytest.mark.parametrize("name", sorted(algorithms))
def test_every_algorithm_acts_under_a_protocol_that_exists(name: str) -> None:
    assert getattr(find_algorithm(name).load(), "protocol") in PROTOCOLS  # noqa: B009  # a callable to the type checker


def test_acting_answers_every_agent_from_its_own_history() -> None:
    team = Team({"a": ECHO, "b": ECHO})
    assert Concat(team, SAMPLING).act({"b": ["x"], "a": ("y", "z", "u")}) == {
        "b": "b after x",
        "a": "a after y / z / u",
    }


def test_acting_asks_only_who_has_something_to_answer_for_one_sample_of_its_whole_history() -> None:
    recorder = Recorder(ECHO)
    Concat(Team({"a": recorder, "b": recorder}), SAMPLING).act({"b": ["x", "y", "z"]}, seed=5)
    [[request]] = recorder.calls
    assert (request.agent, request.history, len(request.seeds)) == ("b", ("x", "y", "z"), 1)
    assert recorder.samplings == [SAMPLING]


def test_acting_follows_from_the_seed() -> None:
    algorithm = Concat(Team({"a": RandomText()}), SAMPLING)
    histories = {"a": ["x"]}
    assert algorithm.act(histories, seed=5) == algorithm.act(histories, seed=5)
    assert algorithm.act(histories, seed=5) != algorithm.act(histories, seed=6)


def test_agents_that_share_a_policy_draw_independently() -> None:
    """Decentralised execution has no common randomness: the same question need not get the same answer."""
    shared = RandomText()
    said = Concat(Team({"a": shared, "b": shared}), SAMPLING).act({"a": ["x"], "b": ["x"]}, seed=5)
    assert said["a"] != said["b"]


def test_an_agents_text_does_not_depend_on_who_else_acts() -> None:
    shared = RandomText()
    algorithm = Concat(Team({"a": shared, "b": shared}), SAMPLING)
    assert algorithm.act({"a": ["x"], "b": ["x"]}, seed=5)["b"] == algorithm.act({"b": ["x"]}, seed=5)["b"]


def test_an_agent_that_nobody_plays_is_named() -> None:
    with pytest.raises(KeyError, match="no member plays 'agent_1'"):
        Concat(Team({"agent_0": ECHO}), SAMPLING).act({"agent_1": ["x"]})


def test_baselines_have_nothing_to_save() -> None:
    algorithm = Single(Team({"a": ECHO}), SAMPLING)
    assert algorithm.state_dict() == {}
    algorithm.load_state_dict({})
    assert algorithm.act({"a": ["x"]}) == {"a": "a after x"}


# --- names ------------------------------------------------------------------------------------------------------------


def test_an_unknown_name_is_answered_with_the_nearest() -> None:
    with pytest.raises(KeyError, match="no algorithm 'magrp'; did you mean magrpo"):
        find_algorithm("magrp")


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
    built = find_algorithm("acme/mine").build(team, SAMPLING)
    assert isinstance(built, Mine)
    assert built.team is team


def test_entry_points_of_installed_packages_are_found(names: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    path = "llm_dec_pomdp.algorithms.baselines:Concat"
    point = metadata.EntryPoint("acme/installed", path, "llm_dec_pomdp.algorithms")

    def entry_points(**params: Any) -> list[metadata.EntryPoint]:
        return [point] if params == {"group": "llm_dec_pomdp.algorithms"} else []

    monkeypatch.setattr(metadata, "entry_points", entry_points)
    assert "acme/installed" in names
    assert find_algorithm("acme/installed").load() is Concat


def test_knowing_the_names_does_not_load_torch() -> None:
    code = (
        "import sys; from llm_dec_pomdp.algorithms.registration import algorithms, find_algorithm;"
        "find_algorithm('single').load(); print(sorted(algorithms)); sys.exit('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "magrpo" in done.stdout
