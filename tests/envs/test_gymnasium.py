"""The view of a centralized environment for single-agent libraries, under Gymnasium's own checker."""

from __future__ import annotations

import copy
import json
import pickle
from typing import Any

import gymnasium
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.wrappers import RecordEpisodeStatistics, TimeLimit, TransformAction

import llm_dec_pomdp
from llm_dec_pomdp.envs.base import NotAskedToStepError, TextDecPOMDP
from llm_dec_pomdp.envs.wrappers import Centralized, GymnasiumView

env_ids = pytest.mark.parametrize("env_id", sorted(llm_dec_pomdp.registry))
WRITING = "tldr-v0"


def view(env_id: str = WRITING, **kwargs: Any) -> GymnasiumView:
    return Centralized(llm_dec_pomdp.make(env_id, **kwargs)).as_gymnasium()


def task_of(env: GymnasiumView) -> Any:
    return env.env.env


# --- every environment ------------------------------------------------------------------------------------------------


@env_ids
@pytest.mark.parametrize("max_turns", [1, 2, 5])
def test_gymnasium_has_nothing_to_say(env_id: str, max_turns: int) -> None:
    """Warnings are errors here."""
    check_env(view(env_id, max_turns=max_turns), skip_render_check=True)


@env_ids
def test_observations_are_texts_of_the_space(env_id: str) -> None:
    env = view(env_id, max_turns=2)
    observation, info = env.reset(seed=0)
    assert env.observation_space.contains(observation)
    observation, reward, terminated, truncated, after = env.step("no answer")
    assert env.observation_space.contains(observation)
    assert (type(reward), type(terminated), type(truncated)) == (float, bool, bool)
    assert set(info) == set(after)
    assert {type(value) for value in (*info.values(), *after.values())} == {float}


@env_ids
def test_the_joined_reference_is_the_best_text(env_id: str) -> None:
    env = view(env_id)
    task = task_of(env)
    env.reset(options={"index": 0})
    _, reward, terminated, truncated, info = env.step(task.join_texts(list(task.gold(task.items[0]).values())))
    assert reward >= task.reference_share * task.max_return - 1e-9
    assert terminated or reward < task.max_return - 1e-9
    assert terminated is not truncated
    assert sum(info[f"reward/{name}"] for name in task.components) == pytest.approx(reward)


@env_ids
def test_the_state_is_json_of_its_space_and_knows_what_was_said(env_id: str) -> None:
    env = view(env_id)
    env.reset(seed=3)
    env.step("what the team said \ud800")
    state = env.env.state()
    assert env.env.state_space.contains(state)
    assert json.loads(state)["histories"]["agent_0"][1] == "what the team said \ud800"


# --- what it is -------------------------------------------------------------------------------------------------------


def test_it_is_a_gymnasium_environment_and_its_own_core() -> None:
    env = view()
    assert isinstance(env, gymnasium.Env)
    assert env.unwrapped is env


def test_spaces_are_the_same_objects_at_every_look() -> None:
    env = view()
    assert env.observation_space is env.observation_space
    assert env.action_space is env.env.action_space("agent_0")


def test_the_metadata_names_the_task_and_the_protocol() -> None:
    assert view().metadata["name"] == "tldr-v0/centralized"
    assert view().metadata["render_modes"] == ["ansi", "human"]


def test_the_team_is_told_every_role() -> None:
    observation, _ = view().reset(seed=0)
    assert "[summary]" in observation
    assert "[elaboration]" in observation


# --- seeds and options ------------------------------------------------------------------------------------------------


def drawn(env: GymnasiumView, seed: int, resets: int = 8) -> list[str]:
    """The tasks of some resets in a row, of which only the first is seeded."""
    tasks: list[str] = []
    for number in range(resets):
        env.reset(seed=None if number else seed)
        tasks.append(env.env.item.id)
    return tasks


@pytest.mark.parametrize("seed", [0, 7, 2**31])
def test_a_seed_decides_all_later_tasks(seed: int) -> None:
    assert drawn(view(), seed) == drawn(view(), seed)


def test_another_seed_draws_other_tasks() -> None:
    assert drawn(view(), 1) != drawn(view(), 2)


def test_a_seed_draws_the_tasks_that_the_environment_inside_draws() -> None:
    inside = Centralized(llm_dec_pomdp.make(WRITING))
    tasks: list[str] = []
    for number in range(8):
        inside.reset(seed=None if number else 5)
        tasks.append(inside.item.id)
    assert drawn(view(), 5) == tasks


def test_unseeded_environments_differ() -> None:
    drawings = set()
    for env in (view(), view(), view()):
        tasks: list[str] = []
        for _ in range(8):
            env.reset()
            tasks.append(env.env.item.id)
        drawings.add(tuple(tasks))
    assert len(drawings) > 1


def test_what_is_said_does_not_change_the_next_task() -> None:
    silent, talkative = view(), view()
    silent.reset(seed=4)
    talkative.reset(seed=4)
    talkative.step("a few words")
    silent.reset()
    talkative.reset()
    assert silent.env.item == talkative.env.item


@pytest.mark.parametrize("options", [{"index": 3}, {"index": 3, "colour": "red"}])
def test_an_index_chooses_the_task_and_other_options_are_ignored(options: dict[str, Any]) -> None:
    env = view()
    env.reset(options=options)
    assert env.env.item == task_of(env).items[3]


def test_a_task_id_chooses_the_task() -> None:
    env = view()
    wanted = task_of(env).items[5]
    observation, _ = env.reset(seed=0, options={"task_id": wanted.id})
    assert env.env.item == wanted
    assert wanted.prompt.strip()[:40] in observation


@pytest.mark.parametrize(("options", "error"), [({"task_id": "tldr-oo1"}, KeyError), ({"index": 10**6}, IndexError)])
def test_a_task_that_does_not_exist_is_refused(options: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error, match="task"):
        view().reset(options=options)


# --- turns ------------------------------------------------------------------------------------------------------------


def test_a_task_of_one_turn_is_over_after_it() -> None:
    """Gymnasium's checker takes no environment that is truncated at its first step."""
    env = view(max_turns=1)
    env.reset(seed=0)
    assert env.step("too short")[2:4] == (True, False)


@pytest.mark.parametrize("max_turns", [2, 4])
def test_an_episode_is_truncated_when_the_turns_run_out(max_turns: int) -> None:
    env = view(max_turns=max_turns)
    env.reset(seed=0)
    ends = [env.step("too short")[2:4] for _ in range(max_turns)]
    assert ends == [(False, False)] * (max_turns - 1) + [(False, True)]


def test_an_episode_ends_when_the_maximum_is_reached() -> None:
    env = view(max_turns=4)
    env.reset(options={"index": 0})
    env.step("too short")
    item = env.env.item
    _, reward, terminated, truncated, _ = env.step(task_of(env).join_texts(item.reference))
    assert (reward, terminated, truncated) == (pytest.approx(task_of(env).max_return), True, False)


def test_every_turn_brings_feedback_and_the_last_one_nothing() -> None:
    env = view(max_turns=3)
    env.reset(seed=0)
    told = [env.step("too short")[0] for _ in range(3)]
    assert all("structure: failed" in text for text in told[:2])
    assert told[2] == ""


def test_the_history_is_what_was_told_and_said() -> None:
    env = view(max_turns=2)
    first, _ = env.reset(seed=0)
    second = env.step("one")[0]
    env.step("two")
    assert env.env.history("agent_0") == (first, "one", second, "two")


def test_a_finished_episode_asks_for_a_reset() -> None:
    env = view()
    env.reset(seed=0)
    env.step("done")
    with pytest.raises(NotAskedToStepError, match=r"tldr-v0/centralized is over; call reset\(\) first"):
        env.step("again")
    env.reset()
    env.step("done")


def test_an_episode_that_has_not_begun_asks_for_a_reset() -> None:
    with pytest.raises(NotAskedToStepError, match="has not begun"):
        view().step("early")


@pytest.mark.parametrize("action", [None, 3, b"bytes", ["list"]])
def test_an_action_that_is_no_text_is_refused(action: Any) -> None:
    env = view()
    env.reset(seed=0)
    with pytest.raises(TypeError, match=f"is a {type(action).__name__}"):
        env.step(action)


# --- rendering and closing --------------------------------------------------------------------------------------------


def test_nothing_is_rendered_without_a_mode(capsys: pytest.CaptureFixture[str]) -> None:
    env = view()
    env.reset(seed=0)
    assert env.render_mode is None
    assert env.render() is None
    assert capsys.readouterr().out == ""


def test_ansi_is_a_transcript_with_the_parts_of_the_reward() -> None:
    env = view(render_mode="ansi")
    assert env.render() == "tldr-v0/centralized: no episode yet"
    told, _ = env.reset(options={"index": 0})
    item = env.env.item
    said = task_of(env).join_texts(item.reference)
    before = env.render()
    assert isinstance(before, str)
    assert "===" not in before
    env.step(said)
    lines = env.render()
    assert isinstance(lines, str)
    assert lines.startswith(f"tldr-v0/centralized / {item.id} / turn 1 of 1\n--- agent_0 (team) told:\n{told}")
    assert f"--- agent_0 (team) says:\n{said}" in lines
    last = lines.splitlines()[-1]
    assert last.startswith("=== score 2.980 of 3:")
    assert "structure +0.500  coordination +1.000  vocabulary +0.500" in last


def test_human_prints_the_transcript_and_returns_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    env = view(render_mode="human")
    env.reset(seed=0)
    env.step("[bold]no markup[/bold] and \ud800 no crash")
    assert env.render() is None
    printed = capsys.readouterr().out
    assert "agent_0 (team) says:" in printed
    assert "[bold]no markup[/bold]" in printed
    assert "score 0.000 of 3" in printed


def test_an_unknown_render_mode_names_the_nearest() -> None:
    with pytest.raises(ValueError, match="render_mode 'ascii' does not exist; did you mean ansi"):
        view(render_mode="ascii")


def test_closing_twice_is_fine_and_closing_first_too() -> None:
    env = view()
    env.close()
    env.reset(seed=0)
    env.close()
    env.close()


def test_it_is_a_context_manager() -> None:
    with view() as env:
        assert env.reset(seed=0)[0]


# --- with the rest of Gymnasium ---------------------------------------------------------------------------------------


def test_a_time_limit_ends_it_earlier() -> None:
    env = TimeLimit(view(max_turns=5), max_episode_steps=2)
    env.reset(seed=0)
    assert [env.step("short")[3] for _ in range(2)] == [False, True]


def test_episode_statistics_are_recorded() -> None:
    env = RecordEpisodeStatistics(view())
    env.reset(options={"index": 0})
    task = task_of(env.unwrapped)  # type: ignore[arg-type]
    info = env.step(task.join_texts(task.items[0].reference))[-1]
    assert info["episode"]["r"] == pytest.approx(2.98)
    assert info["episode"]["l"] == 1


def test_actions_can_be_transformed() -> None:
    inner = view()
    task = task_of(inner)
    texts = [task.join_texts(item.reference) for item in task.items[:3]]
    env = TransformAction(inner, lambda number: texts[number], gymnasium.spaces.Discrete(3))
    env.reset(options={"index": 2})
    assert env.step(2)[1] == pytest.approx(task.max_return)


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
