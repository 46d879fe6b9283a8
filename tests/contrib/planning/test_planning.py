"""The planning tasks: optimum, costs of turns and words, observations, and the form for a single agent."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import pytest

import llm_dec_pomdp
from llm_dec_pomdp.agents import Sampling, Scripted
from llm_dec_pomdp.agents.io.load import load_team
from llm_dec_pomdp.algorithms.registration import build_algorithm
from llm_dec_pomdp.contrib.planning.base import LIMIT, NOTHING, TELL, Dialogue, State
from llm_dec_pomdp.envs.tasks import TaskError
from llm_dec_pomdp.rollout import Trajectories
from llm_dec_pomdp.types import Episode

SMALL: Mapping[str, dict[str, Any]] = {
    "meeting-v0": {"n_agents": 2, "days": 1, "hours": 2, "common": 1, "max_turns": 3},
    "repair-v0": {"settings": 2, "accounts": 1, "faults": 2, "max_turns": 4},
    "trip-v0": {"wishes": 2, "events": 4, "max_turns": 4},
}
ids = pytest.mark.parametrize("env_id", sorted(SMALL))


def small(env_id: str, **options: Any) -> Any:
    return llm_dec_pomdp.make(env_id, **{"count": 30, **SMALL[env_id], **options})


def episodes(env: Any, script: str) -> list[Episode]:
    items = [item.id for item in env.items]
    groups = Trajectories("own").play(env, Scripted(env.script(script)), items, range(len(items)), Sampling())
    return [episode for group in groups for episode in group.episodes]


def most(env: Dialogue, state: State, known: dict[Any, float]) -> float:
    """Return the highest return from a state on, by trying all joint actions of the menus."""
    if state.over or state.turns == env.max_turns:
        return 0.0
    key = state.plan, state.turns  # words do not change what acts do
    if key not in known:
        found: list[float] = []
        for texts in itertools.product(*(env.choices(agent) for agent in env.possible_agents)):
            step = env.transition(state, dict(zip(env.possible_agents, texts, strict=True)), 0)
            found.append(step.reward + most(env, step.state, known))
        known[key] = max(found)
    return known[key]


# --- the optimum ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@ids
def test_no_joint_texts_earn_more_than_the_optimum_and_the_optimal_team_earns_it(env_id: str) -> None:
    env = small(env_id, count=24)
    for item, episode in zip(env.items, episodes(env, "optimal"), strict=True):
        best = most(env, env.initial_state(item, 0), {})
        assert episode.total == pytest.approx(best), item
        assert best == pytest.approx(1 - env.turn_cost * env.optimal_turns(item))
    total = sum(episode.total for episode in episodes(env, "optimal")) / len(env.items)
    assert env.facts.optimum == pytest.approx(total)


@ids
@pytest.mark.slow
@pytest.mark.parametrize("words", ["fixed", "paraphrased"])
def test_the_optimal_team_earns_the_optimum_of_every_embedded_task(env_id: str, words: str) -> None:
    env: Any = llm_dec_pomdp.make(env_id, split="all", words=words)
    assert [sum(item.split == split for item in env.items) for split in ("train", "test")] == [300, 100]
    assert len({tuple(item.fields.values()) for item in env.items}) == 400
    for item, episode in zip(env.items, episodes(env, "optimal"), strict=True):
        assert episode.total == pytest.approx(1 - env.turn_cost * env.optimal_turns(item)), item
    known = env.single_agent()
    assert known.facts.optimum == pytest.approx(env.facts.optimum + env.turn_cost)
    assert sum(e.total for e in episodes(known, "optimal")) / 400 == pytest.approx(known.facts.optimum)
    observations = {env.reset(seed=seed, options={"index": 0})[0]["agent_0"] for seed in range(20)}
    assert len(observations) == (3 if words == "paraphrased" else 1)


@ids
def test_silence_earns_less_and_the_optimum_is_unknown_where_words_cost_or_turns_are_few(env_id: str) -> None:
    env = llm_dec_pomdp.make(env_id, count=30)
    silent = [episode.total for episode in episodes(env, "silent")]
    assert env.facts.optimum is not None
    assert sum(silent) / len(silent) < env.facts.optimum - 0.3
    assert llm_dec_pomdp.make(env_id, word_cost=0.01).facts.optimum is None
    assert llm_dec_pomdp.make(env_id, max_turns=1).facts.optimum is None


# --- turns and words --------------------------------------------------------------------------------------------------


@ids
def test_telling_all_pays_for_its_words(env_id: str) -> None:
    free, dear = (small(env_id, word_cost=cost) for cost in (0.0, 0.01))
    for cheap, paid in zip(episodes(free, "tells_all"), episodes(dear, "tells_all"), strict=True):
        assert cheap.final is not None
        assert paid.final is not None
        words = paid.final.diagnostics["words_said"]
        item = next(item for item in dear.items if item.id == paid.item_id)
        assert words == sum(len(dear.knows(item, agent).split()) for agent in dear.possible_agents)
        assert paid.total == pytest.approx(cheap.total - 0.01 * words)
        assert paid.final.components["words"] == pytest.approx(-0.01 * words)


@ids
def test_others_hear_forty_words_at_most_and_nothing_of_a_text_without_meaning(env_id: str) -> None:
    env = small(env_id)
    env.reset(seed=0)
    env.step({"agent_0": "yes " * 50, "agent_1": " ...\n"})
    heard, noted = env.history("agent_1")[-1].text, env.history("agent_0")[-1].text
    assert heard.splitlines()[0].endswith(": " + " ".join(["yes"] * LIMIT))
    assert "50 words; 40 were heard" in noted
    assert noted.splitlines()[0].endswith(f": {NOTHING}")
    assert env.last_score.diagnostics["words_said"] == LIMIT


@ids
def test_no_act_counts_in_the_first_turn(env_id: str) -> None:
    env = small(env_id)
    for agent in env.possible_agents:
        for text in env.choices(agent):
            env.reset(options={"index": 0})
            is_act = env.read(env.item, agent, text)[0] is not None
            env.step(dict.fromkeys(env.agents, NOTHING) | {agent: text})
            assert env.latest.transition.state.plan == env.initial_state(env.item, 0).plan
            assert ("does not count" in env.history(agent)[-1].text) == is_act


@ids
def test_stopping_wraps_it_and_message_credit_plays_it(env_id: str) -> None:
    env: Any = small(env_id, turn_cost=0.0, stopping={"cost": 0.1})
    env.reset(options={"index": 0})
    rewards = env.step({"agent_0": TELL, "agent_1": "<stop>"})[1]
    assert rewards["agent_0"] == pytest.approx(-0.1)
    assert env.agents == []
    menus = {agent: env.choices(agent) for agent in env.possible_agents}
    team = load_team(env.possible_agents, "builtin:table", roles=env.facts.roles, menus=menus, sharing="separate")
    sampling = Sampling(max_new_tokens=1)
    learner = build_algorithm("magrpo", {"credit": "message"}, team, sampling)
    groups = learner.rollout.play(env, learner.policy, [env.items[0].id], [0], sampling, 2)
    assert groups[0].decisions
    assert learner.update(groups)


@ids
def test_what_was_measured_of_the_optimal_team(env_id: str) -> None:
    env = llm_dec_pomdp.make(env_id)
    items = [item.id for item in env.items[:20]]
    groups = Trajectories("own").play(env, Scripted(env.script("optimal")), items, range(20), Sampling())
    measured = env.measure(groups)["dialogue"]
    assert measured["settled %"] == measured["best %"] == 100
    assert measured["turns"] >= 2
    assert measured["words"] > 0
    assert env.measure([]) == {}


# --- bad input --------------------------------------------------------------------------------------------------------


@ids
def test_scripts_refuse_the_history_of_another_task(env_id: str) -> None:
    env = small(env_id)
    other = llm_dec_pomdp.make("relay-v0")
    other.reset(seed=0)
    for task in (env, env.single_agent()):
        with pytest.raises(ValueError, match="environment"):
            task.script("optimal")("agent_0", other.history("agent_0"))


@ids
def test_rows_of_a_user_are_played_and_broken_ones_are_named(env_id: str) -> None:
    env = small(env_id)
    row = {"prompt": env.items[0].prompt, **env.items[0].fields}
    assert small(env_id, tasks=[row]).facts.optimum == pytest.approx(
        1 - env.turn_cost * env.optimal_turns(env.items[0])
    )
    for field in env.row_fields:
        with pytest.raises(TaskError, match=f"field '{field}'"):
            small(env_id, tasks=[{**row, field: "perhaps"}])
