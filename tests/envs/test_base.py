from __future__ import annotations

import copy
import json
import math
import pickle
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from llm_dec_pomdp.envs.base import NotAskedToStepError, step_many
from llm_dec_pomdp.envs.tasks import TaskSource
from llm_dec_pomdp.envs.text_task import TextTask
from llm_dec_pomdp.spaces import FreeText
from llm_dec_pomdp.types import Score, TaskItem

ITEMS = tuple(
    TaskItem(f"t{i}", f"question {i}", reference=(f"secret-{i}a", f"secret-{i}b"), fields={"test": f"hidden-{i}"})
    for i in range(6)
)
MISS = {"agent_0": "no", "agent_1": "idea"}


class Toy(TextTask):
    """One point for each agent that says its reference; "?" as first text cannot be scored."""

    metadata: dict[str, Any] = {**TextTask.metadata, "name": "toy-v0"}
    roles = ("asker", "answerer")
    components = ("first", "second")
    score_range = (0.0, 2.0)
    max_return = 2.0
    source = TaskSource("toy", "acme/toy", {"train": "train"})

    def observe(self, item: TaskItem, agent: str) -> str:
        return f"{item.prompt}, {self.role(agent)}?"

    def score(self, item: TaskItem, actions: Mapping[str, str]) -> Score:
        hits = [float(actions.get(agent) == text) for agent, text in self.gold(item).items()]
        parts = dict(zip(self.components, hits, strict=True))
        total = math.nan if actions["agent_0"] == "?" else sum(hits)
        return Score(total, parts, notes={"said": actions["agent_0"]})


def toy(**kwargs: Any) -> Toy:
    return Toy(ITEMS, **kwargs)


def playing(index: int = 0, **kwargs: Any) -> Toy:
    env = toy(**kwargs)
    env.reset(seed=0, options={"index": index})
    return env


# --- shape ------------------------------------------------------------------------------------------------------------


def test_agents_are_numbered() -> None:
    assert toy().possible_agents == ["agent_0", "agent_1"]


def test_no_agent_is_live_before_reset() -> None:
    assert toy().agents == []


def test_all_agents_are_live_after_reset() -> None:
    assert playing().agents == ["agent_0", "agent_1"]


def test_live_agents_are_not_the_possible_agents_list() -> None:
    env = playing()
    assert env.agents is not env.possible_agents


def test_roles_by_agent() -> None:
    assert [toy().role(agent) for agent in toy().possible_agents] == ["asker", "answerer"]


@pytest.mark.parametrize("space", ["observation_space", "action_space"])
def test_spaces_are_the_same_object_at_every_call(space: str) -> None:
    env = toy()
    assert getattr(env, space)("agent_0") is getattr(env, space)("agent_0")


@pytest.mark.parametrize("space", ["observation_space", "action_space"])
def test_spaces_hold_text(space: str) -> None:
    found = getattr(toy(), space)("agent_1")
    assert isinstance(found, FreeText)
    assert "any text \ud800" in found


def test_agents_do_not_share_a_space() -> None:
    env = toy()
    assert env.action_space("agent_0") is not env.action_space("agent_1")


def test_an_unknown_render_mode_is_answered_with_the_nearest() -> None:
    with pytest.raises(ValueError, match=r"render_mode 'humna' does not exist; did you mean human"):
        toy(render_mode="humna")


# --- reset ------------------------------------------------------------------------------------------------------------


def test_observations_at_reset() -> None:
    observations, _ = toy().reset(options={"index": 2})
    assert observations == {"agent_0": "question 2, asker?", "agent_1": "question 2, answerer?"}


def test_infos_at_reset_have_every_component_at_zero() -> None:
    _, infos = toy().reset()
    assert infos == {agent: {"reward/first": 0.0, "reward/second": 0.0} for agent in ("agent_0", "agent_1")}


def chosen(env: Toy, seed: int | None, count: int) -> list[str]:
    env.reset(seed=seed)
    first = env.item.id
    rest: list[str] = []
    for _ in range(count - 1):
        env.reset()
        rest.append(env.item.id)
    return [first, *rest]


def test_a_seed_decides_this_and_all_later_tasks() -> None:
    assert chosen(toy(), 3, 10) == chosen(toy(), 3, 10)


def test_other_seeds_decide_otherwise() -> None:
    assert chosen(toy(), 3, 10) != chosen(toy(), 4, 10)


def test_reseeding_starts_over() -> None:
    env = toy()
    assert chosen(env, 3, 10) == chosen(env, 3, 10)


def test_all_tasks_come_up() -> None:
    assert set(chosen(toy(), 0, 100)) == {item.id for item in ITEMS}


def test_the_global_random_state_decides_nothing() -> None:
    np.random.seed(0)  # noqa: NPY002  # the point is that it does not matter
    before = chosen(toy(), 3, 5)
    np.random.seed(1)  # noqa: NPY002
    assert chosen(toy(), 3, 5) == before


def test_choosing_a_task_leaves_later_draws_alone() -> None:
    plain, chosen_first = toy(), toy()
    plain.reset(seed=5, options={"index": 0})
    chosen_first.reset(seed=5, options={"task_id": "t4"})
    assert chosen(plain, None, 5) == chosen(chosen_first, None, 5)


def test_a_task_is_chosen_by_id() -> None:
    env = toy()
    env.reset(options={"task_id": "t4"})
    assert env.item is ITEMS[4]


@pytest.mark.parametrize("index", [3, np.int64(3)])
def test_a_task_is_chosen_by_index(index: Any) -> None:
    env = toy()
    env.reset(options={"index": index})
    assert env.item is ITEMS[3]


def test_unknown_options_are_ignored() -> None:
    assert set(toy().reset(seed=0, options={"options": 1})[0]) == {"agent_0", "agent_1"}


def test_an_unknown_task_id_is_answered_with_the_nearest() -> None:
    with pytest.raises(KeyError) as caught:
        toy().reset(options={"task_id": "t44"})
    assert "no task 't44' among 6; did you mean t4" in caught.value.args[0]


@pytest.mark.parametrize("index", [-1, 6, "0", None, 1.0])
def test_an_index_out_of_range_names_the_range(index: Any) -> None:
    with pytest.raises(IndexError, match=r"is not in 0\.\.5"):
        toy().reset(options={"index": index})


def test_reset_forgets_the_episode() -> None:
    env = playing(max_turns=3)
    env.step(MISS)
    env.reset(options={"index": 1})
    assert (env.turn, env.last_score, len(env.history("agent_0"))) == (0, None, 1)


# --- step -------------------------------------------------------------------------------------------------------------


def test_every_agent_gets_the_identical_float() -> None:
    _, rewards, _, _, _ = playing().step({"agent_0": "secret-0a", "agent_1": "no"})
    assert rewards == {"agent_0": 1.0, "agent_1": 1.0}
    assert rewards["agent_0"] is rewards["agent_1"]


def test_infos_carry_the_components() -> None:
    _, _, _, _, infos = playing().step({"agent_0": "secret-0a", "agent_1": "no"})
    assert infos == {agent: {"reward/first": 1.0, "reward/second": 0.0} for agent in ("agent_0", "agent_1")}


def test_infos_of_agents_are_separate_dictionaries() -> None:
    _, _, _, _, infos = playing().step(MISS)
    infos["agent_0"]["mine"] = 1
    assert "mine" not in infos["agent_1"]


def test_infos_have_the_same_keys_at_reset_and_step() -> None:
    env = toy()
    _, first = env.reset(seed=0)
    assert {a: set(i) for a, i in first.items()} == {a: set(i) for a, i in env.step(MISS)[4].items()}


def test_running_out_of_turns_is_truncation() -> None:
    _, _, terminations, truncations, _ = playing().step(MISS)
    assert terminations == {"agent_0": False, "agent_1": False}
    assert truncations == {"agent_0": True, "agent_1": True}


def test_solving_is_termination() -> None:
    env = playing(max_turns=3)
    _, _, terminations, truncations, _ = env.step(env.gold(env.item))
    assert terminations == {"agent_0": True, "agent_1": True}
    assert truncations == {"agent_0": False, "agent_1": False}


def test_solving_at_the_last_turn_is_termination_and_no_truncation() -> None:
    env = playing()
    _, _, terminations, truncations, _ = env.step(env.gold(env.item))
    assert set(terminations.values()) == {True}
    assert set(truncations.values()) == {False}


def test_nobody_is_live_after_the_end() -> None:
    env = playing()
    env.step(MISS)
    assert env.agents == []


def test_the_last_observations_are_empty() -> None:
    assert playing().step(MISS)[0] == {"agent_0": "", "agent_1": ""}


def test_an_unscorable_action_is_nan_for_everybody() -> None:
    _, rewards, terminations, _, _ = playing().step({"agent_0": "?", "agent_1": ""})
    assert all(math.isnan(reward) for reward in rewards.values())
    assert set(terminations.values()) == {False}


def test_the_last_score_keeps_its_notes() -> None:
    env = playing()
    env.step({"agent_0": "words", "agent_1": ""})
    assert env.last_score is not None
    assert env.last_score.notes == {"said": "words"}


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_a_turn_that_was_interrupted_was_not_played(
    error: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    env = playing()

    def fail(*_: Any) -> Score:
        raise error

    before = env.state()
    with monkeypatch.context() as patched:
        patched.setattr(Toy, "score", fail)
        with pytest.raises(error):
            env.step(MISS)
    assert env.state() == before
    _, rewards, *_ = env.step(env.gold(env.item))
    assert rewards == {"agent_0": 2.0, "agent_1": 2.0}


def test_the_callers_actions_are_left_alone() -> None:
    actions = dict(MISS)
    playing().step(actions)
    assert actions == MISS


def test_stepping_before_reset_says_what_to_do() -> None:
    with pytest.raises(NotAskedToStepError, match=r"episode of toy-v0 has not begun; call reset\(\)"):
        toy().step(MISS)


def test_stepping_after_the_end_says_what_to_do() -> None:
    env = playing()
    env.step(MISS)
    with pytest.raises(NotAskedToStepError, match=r"episode of toy-v0 is over; call reset\(\)"):
        env.step(MISS)


@pytest.mark.parametrize(
    "actions", [{}, {"agent_0": "x"}, {**MISS, "agent_2": "x"}, {"agent_0": "x", "agent_9": "y"}], ids=str
)
def test_missing_and_unknown_agents_are_named(actions: dict[str, str]) -> None:
    with pytest.raises(KeyError) as caught:
        playing().step(actions)
    assert "the live agents are ['agent_0', 'agent_1']" in caught.value.args[0]
    assert str(sorted(actions)) in caught.value.args[0]


@pytest.mark.parametrize("action", [None, 3, b"bytes", ["text"]])
def test_an_action_that_is_no_text_is_named(action: Any) -> None:
    with pytest.raises(TypeError, match=rf"action of agent_1 is a {type(action).__name__} .*actions are text"):
        playing().step({"agent_0": "x", "agent_1": action})


def test_a_refused_step_changes_nothing() -> None:
    env = playing(max_turns=2)
    before = env.state()
    with pytest.raises(TypeError):
        env.step({"agent_0": "x", "agent_1": None})  # type: ignore[dict-item]
    assert env.state() == before
    env.step(MISS)


@pytest.mark.parametrize("text", ["", "\x00", "\ud800", "x" * 1_000_000])
def test_odd_texts_are_actions(text: str) -> None:
    assert playing().step({"agent_0": text, "agent_1": text})[1]["agent_0"] == 0.0


# --- turns ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("turns", [1, 2, 5])
def test_an_episode_has_max_turns(turns: int) -> None:
    env = playing(max_turns=turns)
    played = 0
    while env.agents:
        env.step(MISS)
        played += 1
    assert played == turns == env.turn


def test_the_default_transition_asks_for_a_revision() -> None:
    observations = playing(max_turns=2).step(MISS)[0]
    assert all("Revise" in text for text in observations.values())


def test_a_history_is_what_was_told_and_said() -> None:
    env = playing(max_turns=2)
    observations = env.step(MISS)[0]
    assert env.history("agent_0") == ("question 0, asker?", "no", observations["agent_0"])


def test_a_finished_history_ends_with_the_last_action() -> None:
    env = playing(max_turns=2)
    env.step(MISS)
    env.step({"agent_0": "still", "agent_1": "nothing"})
    assert [len(env.history(agent)) for agent in env.possible_agents] == [4, 4]
    assert env.history("agent_1")[-1] == "nothing"


def test_a_history_holds_nothing_of_the_other_agent() -> None:
    env = playing(max_turns=2)
    env.step({"agent_0": "mine", "agent_1": "yours"})
    assert "yours" not in "".join(env.history("agent_0"))


def test_an_empty_action_is_part_of_the_history() -> None:
    env = playing(max_turns=2)
    env.step({"agent_0": "", "agent_1": ""})
    assert env.history("agent_0")[1] == ""


class OneSpeaks(Toy):
    """Only agent_0 is asked at the first turn."""

    def observe(self, item: TaskItem, agent: str) -> str:
        return super().observe(item, agent) if agent == "agent_0" else ""


def test_an_action_of_an_agent_that_was_not_asked_is_not_in_its_history() -> None:
    env = OneSpeaks(ITEMS, max_turns=2)
    env.reset(options={"index": 0})
    env.step(MISS)
    assert len(env.history("agent_1")) == 1
    assert "idea" not in env.history("agent_1")


@pytest.mark.parametrize("turns", [0, -1, 1.5, "2", None, True])
def test_max_turns_is_a_positive_integer(turns: Any) -> None:
    with pytest.raises(ValueError, match=r"max_turns is .*integer of at least 1"):
        toy(max_turns=turns)


def test_max_cycles_is_max_turns() -> None:
    env = toy(max_turns=4)
    assert env.max_cycles == 4
    env.max_cycles = 7
    assert env.max_turns == 7


def test_assigning_max_cycles_is_checked() -> None:
    with pytest.raises(ValueError, match="max_turns is 0"):
        toy().max_cycles = 0


def test_assigning_max_turns_lengthens_the_running_episode() -> None:
    env = playing()
    env.max_turns = 2
    assert set(env.step(MISS)[3].values()) == {False}


# --- state, item, gold ------------------------------------------------------------------------------------------------


def test_state_is_json_with_task_turn_and_histories() -> None:
    env = playing(1, max_turns=2)
    env.step(MISS)
    state = json.loads(env.state())
    assert state["task"] == {"id": "t1", "prompt": "question 1"}
    assert state["turn"] == 1
    assert state["histories"]["agent_1"][:2] == ["question 1, answerer?", "idea"]


def test_state_before_reset_has_no_task() -> None:
    assert json.loads(toy().state())["task"] is None


@pytest.mark.parametrize("secret", ["secret", "hidden"])
def test_state_holds_neither_references_nor_tests(secret: str) -> None:
    env = playing(max_turns=2)
    env.step(MISS)
    assert secret not in env.state()


def test_state_of_odd_texts_is_json() -> None:
    env = playing(max_turns=2)
    env.step({"agent_0": "\ud800\x00", "agent_1": "\u2028"})
    assert json.loads(env.state())["histories"]["agent_0"][1] == "\ud800\x00"


def test_the_item_before_reset_says_what_to_do() -> None:
    with pytest.raises(NotAskedToStepError, match=r"has no task; call reset\(\)"):
        _ = toy().item


def test_gold_is_the_reference_by_agent() -> None:
    assert toy().gold(ITEMS[0]) == {"agent_0": "secret-0a", "agent_1": "secret-0b"}


def test_gold_of_an_item_without_reference_is_explained() -> None:
    with pytest.raises(ValueError, match=r"task 'x' has 0 reference texts, 2 are needed"):
        toy().gold(TaskItem("x", "prompt"))


# --- copies -----------------------------------------------------------------------------------------------------------


def finish(env: TextTask) -> list[Any]:
    """Play on to the end of this episode and through one more."""
    steps: list[Any] = []
    for _ in range(2):
        while env.agents:
            steps.append(env.step({agent: f"{agent} at {env.turn}" for agent in env.agents}))
        steps.append(env.reset())
    return steps


def test_restore_goes_back_to_the_snapshot() -> None:
    env = playing(max_turns=3)
    env.step(MISS)
    kept, before = env.snapshot(), env.state()
    env.step(MISS)
    env.step(MISS)
    env.restore(kept)
    assert (env.state(), env.turn, env.agents) == (before, 1, ["agent_0", "agent_1"])


def test_a_snapshot_can_be_restored_again_and_again() -> None:
    env = playing(max_turns=3)
    env.step(MISS)
    kept = env.snapshot()
    first = finish(env)
    env.restore(kept)
    second = finish(env)
    env.restore(kept)
    assert first == second == finish(env)


def test_a_restored_score_is_the_one_of_the_snapshot() -> None:
    env = playing(max_turns=3)
    env.step({"agent_0": "secret-0a", "agent_1": "no"})
    kept = env.snapshot()
    env.step(MISS)
    env.restore(kept)
    assert env.last_score is not None
    assert env.last_score.total == 1.0


def test_a_snapshot_of_a_fork_fits_its_parent() -> None:
    env = playing(max_turns=3)
    twin = env.fork()
    twin.step(MISS)
    env.restore(twin.snapshot())
    assert env.state() == twin.state()


TWINS: list[Callable[[TextTask], TextTask]] = [
    lambda env: env.fork(),
    lambda env: pickle.loads(pickle.dumps(env)),
    copy.deepcopy,
]
twins = pytest.mark.parametrize("twin_of", TWINS, ids=["fork", "pickle", "deepcopy"])


@twins
def test_a_copy_stands_at_the_same_decision_point(twin_of: Callable[[TextTask], TextTask]) -> None:
    env = playing(max_turns=3)
    env.step(MISS)
    assert twin_of(env).state() == env.state()


@twins
def test_a_copy_plays_on_as_the_original_does(twin_of: Callable[[TextTask], TextTask]) -> None:
    env = playing(max_turns=3)
    env.step(MISS)
    twin = twin_of(env)
    assert finish(twin) == finish(env)


@twins
def test_a_copy_does_not_affect_the_original(twin_of: Callable[[TextTask], TextTask]) -> None:
    env = playing(max_turns=3)
    env.step(MISS)
    before, draws = env.state(), chosen(copy.deepcopy(env), None, 5)
    finish(twin_of(env))
    assert env.state() == before
    assert env.agents == ["agent_0", "agent_1"]
    assert chosen(env, None, 5) == draws


@twins
def test_the_original_does_not_affect_a_copy(twin_of: Callable[[TextTask], TextTask]) -> None:
    env = playing(max_turns=3)
    twin = twin_of(env)
    before = twin.state()
    finish(env)
    assert twin.state() == before


@twins
def test_a_copy_samples_actions_of_its_own(twin_of: Callable[[TextTask], TextTask]) -> None:
    one, two = playing(), playing()
    for env in (one, two):
        env.action_space("agent_0").seed(1)
    twin_of(one).action_space("agent_0").sample()
    assert one.action_space("agent_0").sample() == two.action_space("agent_0").sample()


def test_an_environment_without_episode_can_be_pickled() -> None:
    assert pickle.loads(pickle.dumps(toy())).items == ITEMS


# --- rendering and closing --------------------------------------------------------------------------------------------


def test_without_a_mode_nothing_is_rendered(capsys: pytest.CaptureFixture[str]) -> None:
    assert playing().render() is None
    assert capsys.readouterr().out == ""


def test_ansi_returns_the_transcript(capsys: pytest.CaptureFixture[str]) -> None:
    env = playing(render_mode="ansi", max_turns=2)
    env.step({"agent_0": "secret-0a", "agent_1": "idea"})
    text = env.render()
    assert text is not None
    for part in ("toy-v0 / t0 / turn 1 of 2", "agent_0 (asker) says:", "secret-0a", "idea", "score 1.000 of 2"):
        assert part in text
    assert capsys.readouterr().out == ""


def test_human_prints_the_transcript(capsys: pytest.CaptureFixture[str]) -> None:
    env = playing(render_mode="human")
    env.step(MISS)
    assert env.render() is None
    assert "agent_1 (answerer) says:" in capsys.readouterr().out


def test_rendering_before_reset_says_so() -> None:
    assert toy(render_mode="ansi").render() == "toy-v0: no episode yet"


def test_markup_in_texts_is_printed_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    env = playing(render_mode="human")
    env.step({"agent_0": "[bold]loud[/bold] [/]", "agent_1": ""})
    env.render()
    assert "[bold]loud[/bold] [/]" in capsys.readouterr().out


def test_lone_surrogates_can_be_printed(capsys: pytest.CaptureFixture[str]) -> None:
    env = playing(render_mode="human")
    env.step({"agent_0": "half \ud800 a pair", "agent_1": ""})
    env.render()
    assert "a pair" in capsys.readouterr().out


def test_closing_twice_is_fine() -> None:
    env = playing()
    env.close()
    env.close()


# --- one text for all -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("texts", [("a", "b"), ("two\nlines", "x"), ("", "b"), ("a", ""), ("", "")], ids=repr)
def test_joined_texts_split_into_the_same_texts(texts: tuple[str, str]) -> None:
    assert toy().split_joint_text(toy().join_texts(texts)) == texts


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
    assert toy().split_joint_text(text) == parts


def test_joining_too_few_texts_is_refused() -> None:
    with pytest.raises(ValueError, match="shorter"):
        toy().join_texts(("a",))


# --- step_many --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("judges_code", [False, True])
def test_stepping_many_is_stepping_each_in_order(judges_code: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Toy, "judges_code", judges_code)
    together, alone = [playing(i) for i in range(5)], [playing(i) for i in range(5)]
    actions = [{"agent_0": f"secret-{i}a", "agent_1": "secret-2b"} for i in range(5)]
    expected = [env.step(action) for env, action in zip(alone, actions, strict=True)]
    assert step_many(together, actions) == expected
    assert [step[1]["agent_0"] for step in expected] == [1.0, 1.0, 2.0, 1.0, 1.0]


class Generous(Toy):
    def step(self, actions: Mapping[str, str]) -> Any:
        observations, rewards, *rest = super().step(actions)
        return observations, {agent: reward + 1 for agent, reward in rewards.items()}, *rest


@pytest.mark.parametrize("judges_code", [False, True])
def test_stepping_many_uses_the_step_of_each(judges_code: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Toy, "judges_code", judges_code)
    envs = [Generous(ITEMS), Generous(ITEMS)]
    for env in envs:
        env.reset(seed=0)
    assert [step[1]["agent_0"] for step in step_many(envs, [MISS, MISS])] == [1.0, 1.0]


def test_stepping_none() -> None:
    assert step_many([], []) == []


@pytest.mark.parametrize("judges_code", [False, True])
def test_stepping_many_needs_one_action_each(judges_code: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Toy, "judges_code", judges_code)
    with pytest.raises(ValueError, match=r"argument 2|actions"):
        step_many([playing(), playing()], [MISS])


@pytest.mark.parametrize("judges_code", [False, True])
def test_an_error_in_one_of_many_is_raised(judges_code: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Toy, "judges_code", judges_code)
    with pytest.raises(NotAskedToStepError):
        step_many([playing(), toy()], [MISS, MISS])
