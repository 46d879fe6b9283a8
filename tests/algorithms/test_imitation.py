"""Imitation: what a teacher says in an agent's place gets likely, by the cross-entropy of its tokens."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from models import AGENTS, Recorder, Softmax, gradients, match, same, sampled, softmax_team, weights

import llm_dec_pomdp
from llm_dec_pomdp.agents import Request, Sampling, Scripted, Team
from llm_dec_pomdp.agents.io.load import load_team
from llm_dec_pomdp.agents.scripted import Uniform
from llm_dec_pomdp.algorithms.imitation import Imitation
from llm_dec_pomdp.envs.hierarchy.keys.task import Keys
from llm_dec_pomdp.episodes import Header, TraceWriter
from llm_dec_pomdp.rollout import Demonstrations, Trajectories
from llm_dec_pomdp.training import TrainerConfig, restore, train
from llm_dec_pomdp.training.checkpoint import Checkpoints
from llm_dec_pomdp.types import Completion, Episode, Event, Group, Turn

ONE_WORD = Sampling(max_new_tokens=1)


class Pupil(Softmax):
    """A table that can be shown a word."""

    def to_completion(self, request: Request, text: str, limit: int, thought: str = "") -> Completion:
        return Completion(text, (0,), (self.words.index(text),), (0.0,))


def pupils(**options: Any) -> Team:
    return Team({agent: Pupil(**options) for agent in AGENTS})


def learner(team: Team, sampling: Sampling = ONE_WORD, **options: Any) -> Imitation:
    return Imitation(team, sampling, Imitation.Config(**{"max_grad_norm": 1e9, "source": "script:gold", **options}))


def test_the_gradient_is_that_of_the_cross_entropy() -> None:
    team = pupils()
    algorithm = learner(team, learning_rate=0.0)
    metrics = algorithm.update(algorithm.rollout.play(match(), team, ["t0", "t1"], [0, 1], ONE_WORD, 2))
    wanted = torch.full((4,), 0.25)
    wanted[0] -= 1  # d(-log p(red)) / d logits
    for found in gradients(team):
        torch.testing.assert_close(found, wanted)
    assert metrics["cross_entropy"] == pytest.approx(math.log(4))


def test_the_teacher_speaks_and_the_team_learns_to() -> None:
    team = pupils()
    algorithm = learner(team, learning_rate=0.2)
    train(algorithm, match(), ONE_WORD, TrainerConfig(steps=40, prompts_per_step=2, group_size=1), 0)
    groups = Trajectories().play(match(), algorithm.policy, ["t0"], [0], ONE_WORD, 50)
    assert sum(e.total for e in groups[0].episodes) > 45
    assert all(p.state_dict()["logits"].softmax(-1)[0] > 0.95 for p in team.trainable)


def test_policies_are_not_asked_while_the_teacher_speaks() -> None:
    recorder = Recorder()
    [group] = Demonstrations("script:gold").play(
        match(), Team(dict.fromkeys(AGENTS, recorder)), ["t1"], [0], ONE_WORD, 2
    )
    assert recorder.calls == []
    assert {c.text for e in group.episodes for c in e.turns[0].actions.values()} == {"red"}


def test_who_cannot_be_shown_a_text_is_refused_in_a_sentence() -> None:
    team = softmax_team()
    algorithm = learner(team)
    groups = algorithm.rollout.play(match(), team, ["t1"], [0], ONE_WORD)
    with pytest.raises(ValueError, match="given texts"):
        algorithm.update(groups)


def test_members_that_cannot_learn_stay_as_they_are() -> None:
    team = Team({"agent_0": Pupil(), "agent_1": Scripted(lambda agent, history: "blue")})
    algorithm = learner(team)
    [group] = algorithm.rollout.play(match(), team, ["t1"], [0], ONE_WORD)
    assert {s.agent for s in algorithm.samples([group])} == {"agent_0"}


def test_a_teacher_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ValueError, match=r"'script:optimum'.*script:optimal"):
        learner(pupils(), source="script:optimum")
    with pytest.raises(ValueError, match="epochs"):
        Imitation.Config(epochs=2)  # type: ignore[arg-type]


# --- recorded episodes ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"context": 6}])
def test_recorded_episodes_are_said_again_word_for_word(options: dict[str, int], tmp_path: Path) -> None:
    env = Keys(delegations=2, entities=6, **options)
    ids = [item.id for item in env.items[:4]]
    recorded = Trajectories().play(env, Uniform(env.choices), ids, range(4), ONE_WORD, 3)
    file = tmp_path / "episodes.jsonl"
    items = {item.id: item for item in env.items}
    with TraceWriter(file) as writer:
        for episode in (episode for group in recorded for episode in group.episodes):
            writer.write_episode(episode, Header.of(env), items[episode.item_id])
    played = Demonstrations(str(file)).play(env, words(env), ids, range(9, 13), ONE_WORD, 12)

    def texts_of(groups: list[Group]) -> list[set[tuple[str, ...]]]:
        return [{tuple(c.text for t in e.turns for c in t.actions.values()) for e in g.episodes} for g in groups]

    assert texts_of(played) == texts_of(recorded)
    assert all(c.token_ids for g in played for e in g.episodes for t in e.turns for c in t.actions.values())
    with pytest.raises(ValueError, match=repr(env.items[5].id)):
        Demonstrations(str(file)).play(env, words(env), [env.items[5].id], [0], ONE_WORD)


def test_a_file_of_something_else_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text('{"task": "t", "texts": {"agent_0": "a"}}\n{"prompt": "x"}\n', encoding="utf-8")
    with pytest.raises(ValueError, match=r"rows\.jsonl, row 2.*'task'"):
        learner(pupils(), source=str(file))


# --- kinds of turns ---------------------------------------------------------------------------------------------------


def turn(text: int, event: Event | None) -> Turn:
    return Turn({"agent_0": "?"}, {"agent_0": sampled(text)}, 0.0, events=(event,) if event else ())


SPAWN, ANSWER = Event("spawn", "agent_1", {"by": "agent_0"}), Event("answer", "agent_0")
READ = Event("read", "agent_0", {"of": "agent_1"})  # afterwards; it was not caused by what was said
TURNS = (*[turn(0, SPAWN)] * 3, turn(1, ANSWER), turn(2, READ))
EPISODE = Episode("q", 0, TURNS, terminated=True)


@pytest.mark.parametrize(
    ("shares", "wanted"),
    [
        ({}, [1, 1, 1, 1, 1]),
        ({"spawn": 1.0, "answer": 1.0}, [2 / 3, 2 / 3, 2 / 3, 2, 1]),
        ({"spawn": 1.0, "answer": 3.0}, [1 / 3, 1 / 3, 1 / 3, 3, 1]),
        ({"answer": 2.0}, [1, 1, 1, 1, 1]),
        ({"answer": 1.0, "say": 3.0, "never": 5.0}, [1, 1, 1, 0.5, 1.5]),
    ],
)
def test_kinds_of_turns_weigh_as_told(shares: Mapping[str, float], wanted: list[float]) -> None:
    found = learner(pupils(), shares=shares).samples([Group("q", (EPISODE,))])
    assert [s.weight for s in found] == pytest.approx(wanted)
    assert {s.advantage for s in found} == {1.0}


def test_one_side_learns_alone() -> None:
    calls = Turn({"agent_0": "?"}, {"agent_0": sampled(0)}, 0.0, events=(SPAWN,))
    reports = Turn({"agent_1": "?"}, {"agent_1": sampled(1)}, 0.0)
    group = Group("q", (Episode("q", 0, (calls, reports, turn(2, ANSWER)), terminated=True),))

    def taught(*train: str) -> list[tuple[str, int]]:
        return [(s.agent, s.completion.token_ids[0]) for s in learner(pupils(), train=train).samples([group])]

    assert taught("main") == [("agent_0", 0), ("agent_0", 2)]
    assert taught("sub") == [("agent_1", 1)]
    assert taught("main", "sub") == [("agent_0", 0), ("agent_0", 2), ("agent_1", 1)]


def test_demonstrations_of_one_task_differ_where_the_environment_draws() -> None:
    env = llm_dec_pomdp.make("research-v0", candidates=True, split="train")
    team = Team(dict.fromkeys(env.possible_agents, Recorder()))
    [group] = Demonstrations("script:optimal").play(env, team, [env.items[0].id], [0], ONE_WORD, 8)
    assert len({episode.turns[0].observations["agent_0"] for episode in group.episodes}) > 1  # options in their order


# --- a language model -------------------------------------------------------------------------------------------------


def words(env: Keys) -> Team:
    roles = [env.role(agent) for agent in env.possible_agents]
    return load_team(env.possible_agents, "builtin:words", roles=roles, vocabulary=env.facts.vocabulary, device="cpu")


def accuracy(env: Keys, team: Team) -> float:
    groups = Trajectories().play(env, team, [item.id for item in env.items[:32]], range(32), ONE_WORD)
    return sum(group.episodes[0].total == 1.0 for group in groups) / 32


@pytest.mark.slow
def test_a_word_model_learns_what_an_optimal_team_says_and_knows_it_of_new_questions() -> None:
    env, test = (Keys(split=split, delegations=2, entities=6) for split in ("train", "test"))
    team = words(env)
    algorithm = learner(team, source="script:optimal", learning_rate=3e-3)
    train(algorithm, env, ONE_WORD, TrainerConfig(steps=80, prompts_per_step=16, group_size=1), 0)
    assert accuracy(test, team) > 0.9


def test_a_run_goes_on_bit_for_bit(tmp_path: Path) -> None:
    env = Keys(delegations=2, entities=6)

    def run(steps: int, folder: str) -> Team:
        team = words(env)
        algorithm = learner(team, source="script:uniform", learning_rate=1e-3)
        places = Checkpoints(tmp_path / folder, {"learner": "imitation"})
        config = TrainerConfig(steps=steps, prompts_per_step=4, group_size=1, save_every=1)
        train(algorithm, env, ONE_WORD, config, 3, checkpoints=places, done=restore(algorithm, env, places))
        return team

    whole = run(4, "whole")
    run(2, "parts")
    assert same(weights(whole), weights(run(4, "parts")))
