"""The view of a centralized environment for single-agent libraries, under Gymnasium's own checker."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import gymnasium
import pytest
from every import make_least, seen
from gymnasium.utils.env_checker import check_env
from gymnasium.wrappers import RecordEpisodeStatistics, TimeLimit, TransformAction
from tasks import references

import llm_dec_pomdp
from llm_dec_pomdp.envs.base import NotAskedToStepError, TextDecPOMDP
from llm_dec_pomdp.envs.wrappers import ByteObservation, Centralized, DiscreteMenu, GymnasiumView, with_protocol

WITH_REFERENCES = [env_id for env_id in sorted(llm_dec_pomdp.registry) if seen(env_id).items[0].reference]
WRITING = "tldr-v0"


def view(env_id: str = WRITING, **kwargs: Any) -> GymnasiumView:
    return GymnasiumView(with_protocol(make_least(env_id, **kwargs), "centralized"))


def task_of(env: GymnasiumView) -> Any:
    return env.env.env


# --- every environment ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("env_id", "max_turns"), [(WRITING, 1), (WRITING, 5), *((env_id, 2) for env_id in sorted(llm_dec_pomdp.registry))]
)
def test_gymnasium_has_nothing_to_say(env_id: str, max_turns: int) -> None:
    """Warnings are errors here."""
    check_env(view(env_id, max_turns=max_turns), skip_render_check=True)


@pytest.mark.parametrize("env_id", WITH_REFERENCES)
def test_the_joined_reference_is_the_best_text(env_id: str) -> None:
    env = view(env_id)
    task = task_of(env)
    env.reset(options={"index": 0})
    _, reward, terminated, truncated, info = env.step(task.facts.join(list(references(task, task.items[0]).values())))
    assert reward >= task.facts.reference_share * task.facts.max_return - 1e-9
    assert (terminated, truncated) == (True, False)
    assert sum(info[f"reward/{name}"] for name in task.facts.components) == pytest.approx(reward)


# --- what it is -------------------------------------------------------------------------------------------------------


def test_an_environment_in_numbers_of_one_agent_passes_the_checks_of_gymnasium() -> None:
    inner = with_protocol(llm_dec_pomdp.make(WRITING), "centralized")
    env = GymnasiumView(ByteObservation(DiscreteMenu(inner, ["[summary]\none", "[elaboration]\ntwo"]), 32))
    check_env(env, skip_render_check=True)
    assert env.action_space == gymnasium.spaces.Discrete(2)


def test_several_agents_are_refused() -> None:
    with pytest.raises(ValueError, match=r"agents \['agent_0', 'agent_1'\].*'centralized'"):
        GymnasiumView(llm_dec_pomdp.make(WRITING))


# --- seeds and options ------------------------------------------------------------------------------------------------


def drawn(env: Any, text: Any, seed: int | None) -> list[str]:
    """The tasks of eight resets in a row, of which only the first is seeded; `text` is the text environment."""
    tasks: list[str] = []
    for number in range(8):
        env.reset(seed=None if number else seed)
        tasks.append(text.item.id)
    return tasks


@pytest.mark.parametrize("seed", [0, 7, 2**31])
def test_a_seed_draws_the_tasks_that_the_environment_inside_draws(seed: int) -> None:
    env, inside = view(), Centralized(llm_dec_pomdp.make(WRITING))
    assert drawn(env, env.env, seed) == drawn(inside, inside, seed)


def test_unseeded_environments_differ() -> None:
    assert len({tuple(drawn(env, env.env, None)) for env in (view(), view(), view())}) > 1


# --- turns ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("max_turns", [1, 2, 4])
def test_an_episode_terminates_when_the_turns_run_out(max_turns: int) -> None:
    env = view(max_turns=max_turns)
    env.reset(seed=0)
    ends = [env.step("too short")[2:4] for _ in range(max_turns)]
    assert ends == [(False, False)] * (max_turns - 1) + [(True, False)]


def test_an_episode_that_is_over_or_has_not_begun_asks_for_a_reset() -> None:
    env = view()
    with pytest.raises(NotAskedToStepError, match="has not begun"):
        env.step("early")
    env.reset(seed=0)
    env.step("done")
    with pytest.raises(NotAskedToStepError, match=r"tldr-v0/centralized is over"):
        env.step("again")


def test_it_renders_the_transcript_of_the_team() -> None:
    env = view(render_mode="ansi")
    env.reset(options={"index": 0})
    env.step("text")
    assert env.render_mode == "ansi"
    assert env.render() == env.env.render() != ""


# --- with the rest of Gymnasium ---------------------------------------------------------------------------------------


def test_wrappers_of_gymnasium_fit_around_it() -> None:
    env = TimeLimit(view(max_turns=5), max_episode_steps=2)
    env.reset(seed=0)
    assert [env.step("short")[3] for _ in range(2)] == [False, True]
    inner = view()
    task = task_of(inner)
    texts = [task.facts.join(item.reference) for item in task.items[:3]]
    chooses = TransformAction(inner, lambda number: texts[number], gymnasium.spaces.Discrete(3))
    records = RecordEpisodeStatistics(chooses)
    records.reset(options={"index": 0})
    info = records.step(0)[-1]
    assert info["episode"]["r"] == pytest.approx(2.98)
    assert info["episode"]["l"] == 1


def test_a_registered_id_of_gymnasium_may_build_it() -> None:
    gymnasium.register("acme/tldr-team-v0", entry_point=view, kwargs={"max_turns": 2})
    try:
        env = gymnasium.make("acme/tldr-team-v0")
        assert isinstance(env.unwrapped, GymnasiumView)
        check_env(env.unwrapped, skip_render_check=True)
    finally:
        del gymnasium.registry["acme/tldr-team-v0"]


@pytest.mark.parametrize("twin", [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))], ids=["copy", "pickle"])
def test_a_copy_plays_on_by_itself(twin: Any) -> None:
    env = view(max_turns=3)
    env.reset(seed=0)
    env.step("one")
    other = twin(env)
    assert isinstance(other.env, TextDecPOMDP)
    assert other.step("two") == env.step("two")
    other.step("three")
    assert env.env.turn == 2
