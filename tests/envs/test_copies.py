"""The contract of an environment: snapshots, copies, transcripts, one text for all, and stepping many at once."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest
from toy import ITEMS, MISS, Toy, playing, toy

from llm_dec_pomdp.envs.base import NotAskedToStepError, step_many
from llm_dec_pomdp.envs.text_task import TextTask

# --- copies -----------------------------------------------------------------------------------------------------------


def finish(env: TextTask) -> list[Any]:
    """Play on to the end of this episode and through one more."""
    steps: list[Any] = []
    for _ in range(2):
        while env.agents:
            steps.append(env.step({agent: f"{agent} at {env.turn}" for agent in env.agents}))
        steps.append(env.reset())
    return steps


def test_a_snapshot_can_be_restored_again_and_again() -> None:
    env = playing(max_turns=3)
    env.step(MISS)
    kept = env.fork().snapshot()
    first = finish(env)
    env.restore(kept)
    second = finish(env)
    env.restore(kept)
    assert first == second == finish(env)


def test_restoring_brings_back_state_turn_agents_and_score() -> None:
    env = playing(max_turns=3)
    env.step({"agent_0": "secret-0a", "agent_1": "no"})
    kept, before = env.snapshot(), env.state()
    env.step(MISS)
    env.step(MISS)
    env.restore(kept)
    assert (env.state(), env.turn, env.agents) == (before, 1, ["agent_0", "agent_1"])
    assert env.last_score is not None
    assert env.last_score.total == 1.0


TWINS: list[Callable[[TextTask], TextTask]] = [
    lambda env: env.fork(),
    lambda env: pickle.loads(pickle.dumps(env)),
    copy.deepcopy,
]
twins = pytest.mark.parametrize("twin_of", TWINS, ids=["fork", "pickle", "deepcopy"])


@twins
def test_a_copy_plays_on_as_the_original_does(twin_of: Callable[[TextTask], TextTask]) -> None:
    env = playing(max_turns=3)
    env.step(MISS)
    twin = twin_of(env)
    before = twin.state()
    assert before == env.state()
    played = finish(env)
    assert twin.state() == before
    assert finish(twin) == played


@twins
def test_a_copy_samples_actions_of_its_own(twin_of: Callable[[TextTask], TextTask]) -> None:
    first, second = playing(), playing()
    for env in (first, second):
        env.action_space("agent_0").seed(1)
    twin_of(first).action_space("agent_0").sample()
    assert first.action_space("agent_0").sample() == second.action_space("agent_0").sample()


# --- rendering and closing --------------------------------------------------------------------------------------------


def test_without_a_mode_nothing_is_rendered(capsys: pytest.CaptureFixture[str]) -> None:
    assert playing().render() is None
    assert capsys.readouterr().out == ""


def test_ansi_returns_the_transcript(capsys: pytest.CaptureFixture[str]) -> None:
    env = toy(render_mode="ansi", max_turns=2)
    assert env.render() == "toy-v0: no episode yet"
    env.reset(options={"index": 0})
    env.step({"agent_0": "secret-0a", "agent_1": "idea"})
    text = env.render()
    assert text is not None
    for part in ("toy-v0 / t0 / turn 1 of 2", "agent_0 (asker) acts:", "secret-0a", "idea", "score 1.000 of 2"):
        assert part in text
    assert capsys.readouterr().out == ""


def test_human_prints_the_transcript_with_markup_and_odd_characters(capsys: pytest.CaptureFixture[str]) -> None:
    env = playing(render_mode="human")
    env.step({"agent_0": "[bold]loud[/bold] [/]", "agent_1": "half \ud800 a pair"})
    assert env.render() is None
    printed = capsys.readouterr().out
    for part in ("agent_1 (answerer) acts:", "[bold]loud[/bold] [/]", "a pair"):
        assert part in printed


# --- one text for all -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("texts", [("a", "b"), ("two\nlines", "x"), ("", "b"), ("a", ""), ("", "")], ids=repr)
def test_joined_texts_split_into_the_same_texts(texts: tuple[str, str]) -> None:
    assert toy().facts.split(toy().facts.join(texts)) == texts


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("no header at all", ("no header at all", "")),
        ("", ("", "")),
        ("[answerer]\nb", ("", "b")),
        ("[asker]\na", ("a", "")),
        ("[answerer]\nb\n[asker]\na", ("a", "b")),
        ("[asker]\na\n[asker]\nagain\n[answerer]\nb", ("a", "b")),
        ("Sure! Here it is:\n[asker]\na\n[answerer]\nb", ("a", "b")),
        ("[Asker]: a\n  [ANSWERER] b", ("a", "b")),
        ("[asker]\nthe [answerer] said\n[answerer]\nb", ("the [answerer] said", "b")),
        ("[other]\na", ("[other]\na", "")),
    ],
)
def test_splitting_by_headers(text: str, parts: tuple[str, str]) -> None:
    assert toy().facts.split(text) == parts


def test_joining_too_few_texts_is_refused() -> None:
    with pytest.raises(ValueError, match="shorter"):
        toy().facts.join(("a",))


# --- step_many --------------------------------------------------------------------------------------------------------


@pytest.fixture(params=[False, True], ids=["one by one", "in threads"])
def either_way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Toy, "declared", replace(Toy.declared, judges_code=request.param))


@pytest.mark.usefixtures("either_way")
def test_stepping_many_is_stepping_each_in_order() -> None:
    together, alone = [playing(i) for i in range(5)], [playing(i) for i in range(5)]
    actions = [{"agent_0": f"secret-{i}a", "agent_1": "secret-2b"} for i in range(5)]
    expected = [env.step(action) for env, action in zip(alone, actions, strict=True)]
    assert step_many(together, actions) == expected
    assert step_many([], []) == []
    assert [step[1]["agent_0"] for step in expected] == [1.0, 1.0, 2.0, 1.0, 1.0]


class Generous(Toy):
    def step(self, actions: Mapping[str, str]) -> Any:
        observations, rewards, *rest = super().step(actions)
        return observations, {agent: reward + 1 for agent, reward in rewards.items()}, *rest


@pytest.mark.usefixtures("either_way")
def test_stepping_many_uses_the_step_of_each() -> None:
    envs = [Generous(ITEMS), Generous(ITEMS)]
    for env in envs:
        env.reset(seed=0)
    assert [step[1]["agent_0"] for step in step_many(envs, [MISS, MISS])] == [1.0, 1.0]


@pytest.mark.usefixtures("either_way")
def test_stepping_many_needs_one_action_each_and_raises_the_error_of_one() -> None:
    with pytest.raises(ValueError, match=r"argument 2|actions"):
        step_many([playing(), playing()], [MISS])
    with pytest.raises(NotAskedToStepError):
        step_many([playing(), toy()], [MISS, MISS])
