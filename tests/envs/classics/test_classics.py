"""The textbook problems in words: how texts are read, who is told what, and what an optimal team earns."""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np
import pytest
from exact import Solver

import llm_dec_pomdp
from llm_dec_pomdp.agents import Request, Sampling
from llm_dec_pomdp.agents.io.load import MemberConfig, assemble_team
from llm_dec_pomdp.agents.io.models import ModelError
from llm_dec_pomdp.envs.classics.base import Classic
from llm_dec_pomdp.envs.wrappers import with_protocol
from llm_dec_pomdp.types import Message

CLASSICS = ("dectiger-v0", "broadcast-v0", "recycling-v0", "gridsmall-v0", "firefighting-v0", "boxpushing-v0")
HORIZONS = (2, 3, 4)
LONG = pytest.mark.slow
rows = pytest.mark.parametrize(
    ("env_id", "horizon"),
    [
        pytest.param(env_id, horizon, marks=LONG if (env_id, horizon) == ("boxpushing-v0", 4) else ())
        for env_id in CLASSICS
        for horizon in HORIZONS
    ],
)


def classic(env_id: str = "dectiger-v0", **options: Any) -> Classic:
    return llm_dec_pomdp.make(env_id, **options)


def hidden(env: Classic) -> dict[str, Any]:
    return json.loads(env.state())["hidden"]


def step(env: Classic, first: str, second: str = "listen") -> float:
    return env.step({"agent_0": first, "agent_1": second})[1]["agent_0"]


# --- the optimum ------------------------------------------------------------------------------------------------------


def value_of_the_script(env: Classic) -> float:
    """The exact expected return of the shipped team, over all that can happen."""
    model = env.model

    def earned(weights: Any, heard: tuple[tuple[str, ...], ...], turn: int) -> float:
        if turn == env.max_turns:
            return 0.0
        played = []
        for place, agent in enumerate(env.possible_agents):
            texts = ["the problem", *(env.phrases[name][0] for name in heard[place])]
            text = env.script("optimal")(agent, [Message("observation", text) for text in texts])
            played.append(model.actions[place].index(text.replace(" ", "-")))
        joint = tuple(played)
        total = float(weights @ (model.transitions * model.rewards)[joint].sum(axis=-1))
        following = weights @ model.transitions[joint]
        for number, observed in enumerate(model.joint_observations):
            seen = following * model.joint_watching[joint][:, number]
            if seen.any():
                names = (model.observations[place][o] for place, o in enumerate(observed))
                total += earned(seen, tuple((*h, name) for h, name in zip(heard, names, strict=True)), turn + 1)
        return total

    return earned(model.start, ((),) * len(model.agents), 0)


@rows
def test_the_exact_solver_confirms_the_published_value(env_id: str, horizon: int) -> None:
    env = classic(env_id, max_turns=horizon)
    value, _ = Solver(env.model, horizon).solve()
    assert env.facts.optimum is not None
    assert value == pytest.approx(env.facts.optimum, abs=5e-3 if env_id == "boxpushing-v0" else 1.3e-4)


@rows
def test_the_shipped_team_is_worth_the_published_value(env_id: str, horizon: int) -> None:
    env = classic(env_id, max_turns=horizon)
    assert value_of_the_script(env) == pytest.approx(
        env.facts.optimum, abs=5e-3 if env_id == "boxpushing-v0" else 1.3e-4
    )


def test_listening_once_is_the_best_of_one_turn() -> None:
    assert Solver(classic().model, 1).solve()[0] == -2.0
    assert classic(max_turns=1).facts.optimum is None


def played(env: Classic, episodes: int) -> np.ndarray[Any, Any]:
    """Returns of the shipped team."""
    returns: list[float] = []
    for number in range(episodes):
        env.reset(seed=0 if number == 0 else None)
        while env.agents:
            env.step({agent: env.script("optimal")(agent, env.history(agent)) for agent in env.agents})
        assert env.last_score is not None
        returns.append(env.last_score.total)
    return np.array(returns)


@pytest.mark.every(2)
@pytest.mark.parametrize("words", ["fixed", "paraphrased"])
@pytest.mark.parametrize("env_id", CLASSICS)
def test_the_optimal_team_earns_the_optimum(env_id: str, words: str) -> None:
    env = classic(env_id, words=words)
    returns = played(env, 300)
    assert env.facts.optimum is not None
    assert abs(returns.mean() - env.facts.optimum) <= 4 * returns.std(ddof=1) / np.sqrt(len(returns)) + 0.005


def test_the_optimal_team_is_a_model_by_name() -> None:
    env = classic(max_turns=2)
    members = [MemberConfig(agents=list(env.facts.roles), model="script:optimal")]
    team = assemble_team(env.possible_agents, env.facts.roles, members, scripts=env.facts.scripts, script=env.script)
    env.reset(seed=0)
    requests = [Request(agent, env.history(agent), seeds=(0,)) for agent in env.agents]
    assert [completion.text for [completion] in team.generate(requests, Sampling())] == ["listen", "listen"]
    with pytest.raises(ModelError, match="'script:optimal'"):
        assemble_team(env.possible_agents, env.facts.roles, members)


def test_a_horizon_without_a_known_optimal_team_is_an_error() -> None:
    env = classic(max_turns=7)
    env.reset(seed=0)
    with pytest.raises(ValueError, match=r"dectiger-v0 .*max_turns=7"):
        env.script("optimal")("agent_0", env.history("agent_0"))
    drafts = with_protocol(classic(), "discussion")
    drafts.reset(seed=0)
    drafts.step(dict.fromkeys(drafts.agents, "listen"))
    with pytest.raises(ValueError, match="'Drafts of the others"):
        classic().script("optimal")("agent_0", drafts.history("agent_0"))
    with pytest.raises(KeyError, match="'optimal' of tldr-v0"):
        llm_dec_pomdp.make("tldr-v0").script("optimal")


# --- texts ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "turn_reward"),
    [
        ("listen", -2.0),
        ("I will LISTEN, then.", -2.0),
        ("not open left, no: listen", -2.0),
        ("listen first? No. open\nleft", {-101.0, 9.0}),
        ("open-left", {-101.0, 9.0}),
        ("Open_Right!", {-101.0, 9.0}),
        ("", -3.0),
        ("I listened and reopen leftovers", -3.0),
        ("open the left door", -3.0),
        ("l\u0131sten", -3.0),
    ],
)
def test_the_last_action_that_is_named_counts(text: str, turn_reward: Any) -> None:
    env = classic()
    env.reset(seed=3)
    reward = step(env, text)
    assert reward in (turn_reward if isinstance(turn_reward, set) else {turn_reward})
    assert env.last_score is not None
    assert env.last_score.diagnostics == {"unknown_actions": float(reward == -3.0)}


@pytest.mark.parametrize("env_id", CLASSICS)
def test_saying_nothing_is_the_harmless_action_and_one_less_per_agent(env_id: str) -> None:
    silent, harmless = classic(env_id), classic(env_id)
    silent.reset(seed=5)
    harmless.reset(seed=5)
    name = harmless.harmless.replace("-", " ")
    while silent.agents:
        assert step(silent, "", "what?") == pytest.approx(step(harmless, name, f"so {name}") - 2)
        assert hidden(silent)["state"] == hidden(harmless)["state"]


# --- what is told -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", ["fixed", "paraphrased"])
@pytest.mark.parametrize("env_id", CLASSICS)
def test_each_agent_is_told_its_own_observation_alone(env_id: str, words: str) -> None:
    env = classic(env_id, words=words, max_turns=40)
    env.reset(seed=1)
    sentences: set[str] = set()
    for turn in range(1, 40):
        observations = env.step(dict.fromkeys(env.agents, env.model.actions[0][turn % 2].replace("-", " ")))[0]
        state = env.latest.transition.state
        for place, agent in enumerate(env.possible_agents):
            sentence, left = re.fullmatch(r"(.*) Turns left: (\d+)\.", observations[agent]).groups()  # type: ignore[union-attr]
            name = env.model.observations[place][state.observed[place]]
            assert sentence in env.phrases[name]
            assert int(left) == 40 - turn
            sentences.add(sentence)
    assert sentences - {phrases[0] for phrases in env.phrases.values()} == set() or words == "paraphrased"
    assert words == "fixed" or len(sentences) > len(env.phrases) or env_id == "boxpushing-v0"


@pytest.mark.parametrize("env_id", CLASSICS)
def test_every_sentence_stands_for_one_observation_of_the_model(env_id: str) -> None:
    env = classic(env_id)
    assert set(env.phrases) == {name for names in env.model.observations for name in names}
    sentences = [sentence for phrases in env.phrases.values() for sentence in phrases]
    assert not [(a, b) for a in sentences for b in sentences if a is not b and a.startswith(b)]


def test_rewards_are_differences_of_the_return() -> None:
    env = classic("boxpushing-v0", max_turns=4)
    env.reset(seed=2)
    total = 0.0
    while env.agents:
        total += step(env, "turn left", "turn right" if env.turn == 0 else "forward")
        assert env.last_score is not None
        assert env.last_score.total == pytest.approx(total)
    assert hidden(env) == {"state": hidden(env)["state"], "return": pytest.approx(total)}


def test_the_problem_is_in_every_split_and_options_are_checked() -> None:
    assert [classic(split=split).items for split in ("train", "test", "all")] == [classic().items] * 3
    with pytest.raises(llm_dec_pomdp.envs.TaskError, match="'tset'"):
        classic(split="tset")
    assert classic(max_turns=4).facts.score_range == (-412.0, 80.0)
