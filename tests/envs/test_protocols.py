from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

import llm_dec_pomdp
from llm_dec_pomdp.envs.base import TextDecPOMDP
from llm_dec_pomdp.envs.check import LAWS, check_env
from llm_dec_pomdp.envs.tasks import TaskSource
from llm_dec_pomdp.envs.text_task import TextTask
from llm_dec_pomdp.envs.wrappers import PROTOCOLS, Centralized, Discussion, Sequential, with_protocol
from llm_dec_pomdp.types import Completion, Episode, Score, TaskItem, Turn

ITEMS = tuple(TaskItem(f"t{i}", f"post {i}", reference=("alpha", "beta", "gamma")) for i in range(3))
AGENTS = ["agent_0", "agent_1", "agent_2"]
NAMES = dict(zip(AGENTS, ["first", "second", "third"], strict=True))


class Trio(TextTask):
    """One point for every agent that says its reference."""

    metadata: dict[str, Any] = {**TextTask.metadata, "name": "trio-v0"}  # as PettingZoo declares it
    roles = ("first", "second", "third")
    components = ("hits",)
    score_range = (0.0, 3.0)
    max_return = 3.0
    source = TaskSource("trio", "acme/trio", {"train": "train"})

    def observe(self, item: TaskItem, agent: str) -> str:
        return f"{item.prompt}\n\nwrite the {self.role(agent)} part"

    def score(self, item: TaskItem, actions: Mapping[str, str]) -> Score:
        hits = float(sum(actions.get(agent) == text for agent, text in self.gold(item).items()))
        return Score(hits, {"hits": hits})


class OnlyOneRevises(Trio):
    """In the second turn only agent_1 is asked."""

    def transition(self, item: TaskItem, actions: Mapping[str, str], score: Score) -> Mapping[str, str]:
        return {"agent_1": "revise"}


def trio(protocol: str = "parallel", **kwargs: Any) -> Any:
    return with_protocol(Trio(ITEMS, **kwargs), protocol)


def discussion(rounds: int, **kwargs: Any) -> Discussion:
    return Discussion(Trio(ITEMS, **kwargs), rounds)


def begin(env: TextDecPOMDP) -> dict[str, str]:
    return env.reset(seed=0, options={"index": 0})[0]


def say(env: TextDecPOMDP, text: str = "draft") -> Any:
    """Every agent says `text` and its own name."""
    return env.step({agent: f"{text} of {agent}" for agent in env.agents})


def play(env: TextDecPOMDP) -> list[float]:
    """The rewards of an episode in which everybody says the same."""
    begin(env)
    rewards: list[float] = []
    while env.agents:
        rewards.append(next(iter(say(env)[1].values())))
    return rewards


GOLD = dict(zip(AGENTS, ITEMS[0].reference, strict=True))

# --- sequential -------------------------------------------------------------------------------------------------------


def test_sequential_asks_the_first_agent_with_its_own_observation() -> None:
    assert begin(trio("sequential"))["agent_0"] == "post 0\n\nwrite the first part"


@pytest.mark.parametrize("phase", [0, 1, 2])
def test_sequential_asks_one_agent_per_phase(phase: int) -> None:
    env = trio("sequential")
    observations = begin(env)
    for _ in range(phase):
        observations = say(env)[0]
    assert [agent for agent in AGENTS if observations[agent]] == [AGENTS[phase]]
    assert [agent for agent in AGENTS if env.asked(agent)] == [AGENTS[phase]]


def test_sequential_shows_the_second_agent_what_the_first_wrote() -> None:
    env = trio("sequential")
    begin(env)
    seen = say(env)[0]["agent_1"]
    assert seen.startswith("post 0\n\nwrite the second part")
    assert "[first]\ndraft of agent_0" in seen


def test_sequential_shows_the_last_agent_all_earlier_texts_in_order() -> None:
    env = trio("sequential")
    begin(env)
    say(env)
    seen = say(env)[0]["agent_2"]
    assert seen.index("[first]\ndraft of agent_0") < seen.index("[second]\ndraft of agent_1")


def test_sequential_ignores_the_actions_of_agents_that_are_not_asked() -> None:
    env = trio("sequential")
    begin(env)
    seen = env.step({"agent_0": "alpha", "agent_1": "too early", "agent_2": "much too early"})[0]
    assert "early" not in "".join(seen.values())
    env.step({"agent_0": "too late", "agent_1": "beta", "agent_2": "too early"})
    _, rewards, terminations, _, _ = env.step({"agent_0": "too late", "agent_1": "too late", "agent_2": "gamma"})
    assert rewards == dict.fromkeys(AGENTS, 3.0)
    assert all(terminations.values())


def test_sequential_history_holds_only_what_the_agent_was_asked() -> None:
    env = trio("sequential")
    begin(env)
    say(env)
    assert env.history("agent_0") == ("post 0\n\nwrite the first part", "draft of agent_0")
    assert env.history("agent_2") == ()


# --- discussion -------------------------------------------------------------------------------------------------------


def test_discussion_asks_everyone_for_a_draft_first() -> None:
    observations = begin(discussion(1))
    assert observations["agent_1"] == "post 0\n\nwrite the second part\n\nWrite a draft first."


def test_discussion_shows_the_drafts_of_the_others_and_not_ones_own() -> None:
    env = discussion(1)
    begin(env)
    seen = say(env)[0]["agent_1"]
    assert "[first]\ndraft of agent_0" in seen
    assert "[third]\ndraft of agent_2" in seen
    assert "draft of agent_1" not in seen


def test_discussion_of_one_round_asks_for_the_final_version_next() -> None:
    env = discussion(1)
    begin(env)
    assert all("final version" in text for text in say(env)[0].values())


def test_discussion_of_two_rounds_asks_for_another_draft_in_between() -> None:
    env = discussion(2)
    begin(env)
    assert all("next draft" in text and "final" not in text for text in say(env, "old")[0].values())
    last = say(env, "new")[0]
    assert all("final version" in text for text in last.values())


def test_discussion_shows_the_newest_drafts() -> None:
    env = discussion(2)
    begin(env)
    say(env, "old")
    seen = say(env, "new")[0]["agent_0"]
    assert "new of agent_1" in seen
    assert "old" not in seen


def test_discussion_scores_the_final_texts_and_not_the_drafts() -> None:
    env = discussion(1)
    begin(env)
    assert env.step(GOLD)[1] == dict.fromkeys(AGENTS, 0.0)
    assert say(env)[1] == dict.fromkeys(AGENTS, 0.0)
    begin(env)
    say(env)
    assert env.step(GOLD)[1] == dict.fromkeys(AGENTS, 3.0)


@pytest.mark.parametrize("rounds", [0, -1])
def test_discussion_needs_a_round(rounds: int) -> None:
    with pytest.raises(ValueError, match=f"rounds is {rounds}"):
        discussion(rounds)


# --- centralized ------------------------------------------------------------------------------------------------------


def test_centralized_has_one_agent_that_plays_all_parts() -> None:
    env = trio("centralized")
    assert env.possible_agents == ["agent_0"]
    assert env.role("agent_0") == "team"
    assert env.parts_per_action == 3


def test_other_protocols_ask_for_one_part_per_action() -> None:
    assert [trio(name).parts_per_action for name in ("parallel", "sequential", "discussion")] == [1, 1, 1]


def test_centralized_shows_what_is_common_once_and_every_request() -> None:
    seen = begin(trio("centralized"))["agent_0"]
    assert seen.count("post 0") == 1
    assert [seen.count(f"[{role}] write the {role} part") for role in Trio.roles] == [1, 1, 1]


def test_centralized_explains_the_headers() -> None:
    seen = begin(trio("centralized"))["agent_0"]
    assert seen.endswith("each below a line with its name: [first] and [second] and [third].")


@pytest.mark.parametrize(
    ("text", "reward"),
    [
        ("[first]\nalpha\n[second]\nbeta\n[third]\ngamma", 3.0),
        ("[third]\ngamma\n[first]\nalpha\n[second]\nbeta", 3.0),
        ("[FIRST]: alpha\n[Second]: beta\n[third]: gamma", 3.0),
        ("[first]\nalpha\n[third]\ngamma", 2.0),
        ("alpha", 1.0),
        ("alpha\nbeta\ngamma", 0.0),
    ],
)
def test_centralized_splits_the_text_by_headers(text: str, reward: float) -> None:
    env = trio("centralized")
    begin(env)
    assert env.step({"agent_0": text})[1] == {"agent_0": reward}


def test_centralized_code_is_split_by_function() -> None:
    task = llm_dec_pomdp.make("coophumaneval-v0")
    env = Centralized(task)
    item = task.items[0]
    env.reset(options={"task_id": item.id})
    _, rewards, _, _, _ = env.step({"agent_0": "\n\n".join(reversed(item.reference))})
    assert rewards == {"agent_0": pytest.approx(4.0)}


@pytest.mark.parametrize("env_id", sorted(llm_dec_pomdp.registry))
def test_joined_references_earn_the_maximum_under_centralized(env_id: str) -> None:
    task = llm_dec_pomdp.make(env_id)
    env = Centralized(task)
    item = next(item for item in task.items if item.reference)
    env.reset(options={"task_id": item.id})
    _, rewards, _, _, _ = env.step({"agent_0": env.join_texts(list(task.gold(item).values()))})
    assert rewards["agent_0"] >= task.reference_share * task.max_return - 1e-9


# --- all of them ------------------------------------------------------------------------------------------------------

PHASES = {"parallel": 1, "centralized": 1, "sequential": 3, "discussion": 2}


def test_every_protocol_is_tested_here() -> None:
    assert set(PHASES) == set(PROTOCOLS)


@pytest.mark.parametrize(("protocol", "phases"), PHASES.items())
@pytest.mark.parametrize("inner", [1, 2])
def test_length_of_an_episode(protocol: str, phases: int, inner: int) -> None:
    env = trio(protocol, max_turns=inner)
    assert env.max_turns == len(play(env)) == phases * inner


@pytest.mark.parametrize(("protocol", "phases"), PHASES.items())
def test_only_the_last_phase_is_scored(protocol: str, phases: int) -> None:
    env = trio(protocol, max_turns=2)
    begin(env)
    scored: list[bool] = []
    while env.agents:
        before = env.last_score
        infos = say(env)[-1]
        scored.append(env.last_score is not before)
        assert set(infos[env.possible_agents[0]]) == {"reward/hits"}
    assert scored == ([False] * (phases - 1) + [True]) * 2


@pytest.mark.parametrize("protocol", ["sequential", "discussion"])
def test_unscored_phases_pay_zero_and_leave_no_score(protocol: str) -> None:
    env = trio(protocol)
    begin(env)
    _, rewards, terminations, truncations, _ = env.step(GOLD)
    assert rewards == dict.fromkeys(AGENTS, 0.0)
    assert env.last_score is None
    assert not any([*terminations.values(), *truncations.values()])


@pytest.mark.parametrize("protocol", ["sequential", "discussion"])
def test_one_team_reward_comes_at_the_end(protocol: str) -> None:
    env = trio(protocol)
    begin(env)
    rewards = [env.step(GOLD)[1] for _ in range(PHASES[protocol])]
    assert rewards == [dict.fromkeys(AGENTS, 0.0)] * (PHASES[protocol] - 1) + [dict.fromkeys(AGENTS, 3.0)]
    assert env.agents == []


@pytest.mark.parametrize("protocol", PHASES)
def test_a_solved_turn_ends_the_episode_early(protocol: str) -> None:
    env = trio(protocol, max_turns=2)
    begin(env)
    action = {"agent_0": env.join_texts(ITEMS[0].reference)} if protocol == "centralized" else GOLD
    steps = 0
    while env.agents:
        _, _, terminations, truncations, _ = env.step(action)
        steps += 1
    assert steps == PHASES[protocol]
    assert all(terminations.values())
    assert not any(truncations.values())


@pytest.mark.parametrize("protocol", PHASES)
def test_running_out_of_turns_is_truncation(protocol: str) -> None:
    env = trio(protocol, max_turns=2)
    begin(env)
    while env.agents:
        _, _, terminations, truncations, _ = say(env)
    assert all(truncations.values())
    assert not any(terminations.values())


def test_sequential_starts_again_with_the_revision_of_the_second_turn() -> None:
    env = trio("sequential", max_turns=2)
    begin(env)
    for _ in range(2):
        say(env, "old")
    observations = say(env, "old")[0]
    assert [agent for agent in AGENTS if observations[agent]] == ["agent_0"]
    assert "Revise" in observations["agent_0"]
    seen = say(env, "new")[0]["agent_1"]
    assert "Revise" in seen
    assert "new of agent_0" in seen
    assert "old" not in seen


def test_discussion_drafts_again_in_the_second_turn() -> None:
    env = discussion(1, max_turns=2)
    begin(env)
    say(env)
    observations = say(env)[0]
    assert all("Revise" in text and text.endswith("Write a draft first.") for text in observations.values())


@pytest.mark.parametrize("protocol", PHASES)
def test_a_task_that_asks_only_some_agents_can_be_played(protocol: str) -> None:
    env = with_protocol(OnlyOneRevises(ITEMS, max_turns=2), protocol)
    assert len(play(env)) == env.max_turns


@pytest.mark.parametrize("protocol", ["parallel", "sequential", "discussion"])
def test_an_agent_that_the_task_does_not_ask_is_not_asked(protocol: str) -> None:
    env = with_protocol(OnlyOneRevises(ITEMS, max_turns=2), protocol)
    begin(env)
    while env.turn < PHASES[protocol]:
        say(env)
    asked: set[str] = set()
    while env.agents:
        asked |= {agent for agent in AGENTS if env.asked(agent)}
        say(env)
    assert asked == {"agent_1"}


@pytest.mark.parametrize("inner", [Sequential, Discussion])
@pytest.mark.parametrize("outer", [Sequential, Discussion, Centralized])
def test_a_protocol_around_a_protocol_pays_once_for_every_scored_turn(outer: Any, inner: Any) -> None:
    env = outer(inner(trio(max_turns=2, pays="each")))
    env.reset(seed=0)
    said = env.join_texts(["alpha", "no", "no"]) if outer is Centralized else "alpha"
    rewards = []
    while env.agents:
        _, paid, *_ = env.step(dict.fromkeys(env.agents, said))
        rewards.append(max(paid.values()))
        assert (rewards[-1] != 0) == env.scored
    assert len([reward for reward in rewards if reward]) == 2


def test_what_is_centralized_is_not_centralized_again() -> None:
    with pytest.raises(ValueError, match=r"trio-v0/centralized is centralized already"):
        Centralized(Centralized(trio()))


def test_setting_max_turns_keeps_whole_turns() -> None:
    env = trio("sequential")
    env.max_turns = 4
    assert env.max_turns == 6
    assert env.env.max_turns == 2


@pytest.mark.parametrize("protocol", PHASES)
def test_role_range_and_components_are_the_tasks_own(protocol: str) -> None:
    env = trio(protocol)
    assert (tuple(env.roles), env.reward_range, tuple(env.components)) == (Trio.roles, (0.0, 3.0), ("hits",))
    assert env.items == ITEMS


def test_judging_in_another_process_is_passed_on() -> None:
    task = Trio(ITEMS)
    task.judges_code = True
    assert Sequential(task).judges_code


@pytest.mark.parametrize("protocol", ["centralized", "sequential", "discussion"])
def test_the_name_tells_the_protocol(protocol: str) -> None:
    assert trio(protocol).metadata["name"] == f"trio-v0/{protocol}"


def test_parallel_is_the_environment_itself() -> None:
    task = Trio(ITEMS)
    assert with_protocol(task, "parallel") is task


def test_an_unknown_protocol_names_the_nearest() -> None:
    with pytest.raises(KeyError, match="no protocol 'centralised'; did you mean centralized"):
        trio("centralised")


# --- copies -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", ["centralized", "sequential", "discussion"])
def test_a_fork_goes_its_own_way(protocol: str) -> None:
    env = trio(protocol, max_turns=2)
    begin(env)
    say(env)
    before = env.state()
    twin = env.fork()
    while twin.agents:
        say(twin, "elsewhere")
    assert env.state() == before
    assert env.agents
    assert "elsewhere" not in "".join(say(env)[0].values())


@pytest.mark.parametrize("protocol", ["sequential", "discussion"])
def test_a_fork_between_phases_knows_the_texts_so_far(protocol: str) -> None:
    env = trio(protocol)
    begin(env)
    say(env)
    twin = env.fork()
    while env.agents:
        own, other = say(env), say(twin)
        assert own == other


@pytest.mark.parametrize("protocol", ["sequential", "discussion"])
def test_a_snapshot_brings_back_the_phase(protocol: str) -> None:
    env = trio(protocol, max_turns=2)
    begin(env)
    say(env)
    kept = env.snapshot()
    first = [say(env, "one") for _ in range(3)]
    env.restore(kept)
    assert [say(env, "one") for _ in range(3)] == first


def test_a_snapshot_survives_what_is_played_after_restoring_it() -> None:
    env = trio("discussion")
    begin(env)
    kept = env.snapshot()
    for text in ("one", "two"):
        env.restore(kept)
        assert f"{text} of agent_1" in say(env, text)[0]["agent_0"]


def test_a_reset_forgets_drafts() -> None:
    env = trio("sequential")
    begin(env)
    say(env, "old")
    begin(env)
    assert "old" not in "".join(say(env, "new")[0].values())


# --- response time ----------------------------------------------------------------------------------------------------

SECONDS = {"agent_0": 2.0, "agent_1": 3.0, "agent_2": 5.0}


def timed(env: TextDecPOMDP) -> Episode:
    """An episode in which every agent takes its own time."""
    turns: list[Turn] = []
    observations = begin(env)
    while env.agents:
        asked = [agent for agent in env.agents if env.asked(agent)]
        spoken = {agent: Completion("word", seconds=SECONDS[agent]) for agent in asked}
        seen = {agent: observations[agent] for agent in asked}
        observations = say(env)[0]
        turns.append(Turn(seen, spoken, 0.0))
    return Episode("t0", 0, tuple(turns), terminated=False)


@pytest.mark.parametrize(
    ("env", "seconds"),
    [
        (trio(), 5.0),
        (trio("centralized"), 2.0),
        (trio("sequential"), 2.0 + 3.0 + 5.0),
        (discussion(1), 5.0 + 5.0),
        (discussion(2), 5.0 + 5.0 + 5.0),
        (trio("sequential", max_turns=2), 20.0),
    ],
    ids=["parallel", "centralized", "sequential", "discussion", "two rounds", "two turns"],
)
def test_response_time(env: TextDecPOMDP, seconds: float) -> None:
    assert timed(env).response_seconds == pytest.approx(seconds)


# --- the laws ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", PHASES)
@pytest.mark.parametrize("max_turns", [1, 2])
def test_the_laws_hold_under_every_protocol(protocol: str, max_turns: int) -> None:
    assert check_env(trio(protocol, max_turns=max_turns)) == list(LAWS)


@pytest.mark.parametrize("protocol", sorted(PROTOCOLS))
@pytest.mark.parametrize("env_id", sorted(llm_dec_pomdp.registry))
def test_the_laws_hold_for_every_registered_task_under_every_protocol(env_id: str, protocol: str) -> None:
    assert check_env(with_protocol(llm_dec_pomdp.make(env_id), protocol), rows=1) == list(LAWS)
