"""Credit for messages and calls: its gradient by enumeration, and who gets it where only one knows anything."""

from __future__ import annotations

import math
import runpy
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from models import ITEMS, Match, Softmax

import llm_dec_pomdp
from llm_dec_pomdp.agents import Policy, Sampling, Team
from llm_dec_pomdp.agents.base import Request
from llm_dec_pomdp.agents.table import number_of
from llm_dec_pomdp.algorithms.magrpo import MAGRPO
from llm_dec_pomdp.envs.base import TextDecPOMDP
from llm_dec_pomdp.envs.tools import kit
from llm_dec_pomdp.envs.wrappers import WithTools, with_protocol
from llm_dec_pomdp.rollout import Rollout, Trajectories, messages
from llm_dec_pomdp.seeding import uniforms
from llm_dec_pomdp.types import Completion, Group, Score, TaskItem

ONE_WORD = Sampling(max_new_tokens=1)
Array = npt.NDArray[np.float64]
Row = tuple[str, int]  # of a table of logits: agent and number of its history

# --- all that can be drawn, each with its probability -----------------------------------------------------------------


class Listed(Policy):
    """Says of all that it might say what a list of choices tells it to, and notes how likely that was."""

    def __init__(self, menu: Sequence[str], chances: Callable[[Request], Array], choices: Sequence[int] = ()) -> None:
        self.menu, self.chances, self.choices = menu, chances, choices
        self.taken: list[tuple[int, int]] = []  # which of how many
        self.likelihood = 1.0
        self.rows: dict[Row, Array] = {}
        self._drawn: dict[tuple[Row, int], Completion] = {}

    def generate(self, requests: Sequence[Request], sampling: Sampling) -> list[list[Completion]]:
        return [[self._say(request, seed) for seed in request.seeds] for request in requests]

    def _say(self, request: Request, seed: int) -> Completion:
        """The same history and seed give the same text, as with any policy."""
        row = (request.agent, number_of(request.history))
        if (row, seed) not in self._drawn:
            p = self.rows[row] = self.chances(request)
            possible = np.flatnonzero(p)
            place = 0
            if len(possible) > 1:
                place = self.choices[len(self.taken)] if len(self.taken) < len(self.choices) else 0
                self.taken.append((place, len(possible)))
            token = int(possible[place])
            self.likelihood *= p[token]
            self._drawn[row, seed] = Completion(self.menu[token], (row[1],), (token,), (math.log(p[token]),))
        return self._drawn[row, seed]

    def pick(self, count: int) -> int:
        """One of so many, all equally likely."""
        place = self.choices[len(self.taken)] if len(self.taken) < len(self.choices) else 0
        self.taken.append((place, count))
        self.likelihood /= count
        return place

    def next_choices(self) -> list[int] | None:
        """Those of the next of all possible plays; None after the last."""
        choices = list(self.taken)
        while choices and choices[-1][0] == choices[-1][1] - 1:
            choices.pop()
        return [*(place for place, _ in choices[:-1]), choices[-1][0] + 1] if choices else None


def expected_gradient(
    env: Any,
    chances: Callable[[Request], Array],
    rollout: Rollout,
    worths: Callable[[Group], Iterable[tuple[str, Completion, float]]],
    begin: Callable[[Listed], object] = lambda policy: None,
    menu: Sequence[str] = ("red", "green"),
    width: int = 1,
) -> dict[Row, Array]:
    """Mean, over all that can be drawn, of the sum over texts of worth * d log p(text) / d logits, by row."""
    total: Mapping[Row, Array] = defaultdict(lambda: np.zeros(len(menu)))
    certain = 0.0
    choices: list[int] | None = []
    while choices is not None:
        policy = Listed(menu, chances, choices)
        begin(policy)
        [group] = rollout.play(env, Team(dict.fromkeys(env.possible_agents, policy)), ["t1"], [0], ONE_WORD, width)
        certain += policy.likelihood
        for agent, completion, worth in worths(group):
            row = (agent, completion.prompt_ids[0])
            total[row][:] += policy.likelihood * worth * (np.eye(len(menu))[completion.token_ids[0]] - policy.rows[row])
        choices = policy.next_choices()
    assert certain == pytest.approx(1.0)
    return {row: gradient for row, gradient in total.items() if np.abs(gradient).max() > 1e-12}


# --- unbiased ---------------------------------------------------------------------------------------------------------

MENU = ("red", "green")


class Priced(Match):
    """Every joint action has a price of its own, silence too."""

    prices = np.array([[0.1, 0.9, 0.3], [0.7, 0.2, 0.6], [0.5, 0.8, 0.0]])

    def score(self, item: TaskItem, actions: Mapping[str, str]) -> Score:
        first, second = ((*MENU, "").index(actions[agent]) for agent in self.possible_agents)
        value = float(self.prices[first, second])
        return Score(value, {"match": value})


def some_logits(request: Request) -> Array:
    """A row for every history. Under discussion, agent_1's draft and agent_0's last text are certain."""
    drafts, last = "draft first" in request.history[-1].text, "final version" in request.history[-1].text
    if (drafts and request.agent == "agent_1") or (last and request.agent == "agent_0"):
        return np.array([1.0, 0.0])
    [u] = uniforms(number_of(request.history), 1)
    return np.array([0.2 + 0.6 * u, 0.8 - 0.6 * u])


@pytest.mark.parametrize("options", [{"alternatives": 2}, {"silence": True}, {"alternatives": 0, "silence": True}])
@pytest.mark.parametrize("protocol", ["sequential", pytest.param("discussion", marks=pytest.mark.slow)])
def test_the_mean_gradient_is_that_of_the_expected_return(protocol: str, options: dict[str, Any]) -> None:
    """Of messages and of scored texts; the exact one is that of REINFORCE over all trajectories."""
    env = with_protocol(Priced(ITEMS), protocol)
    learner = learner_for(env, credit="message", **options)

    def credited(group: Group) -> Iterable[tuple[str, Completion, float]]:
        for s in learner.credit(group):
            yield s.agent, s.completion, s.advantage / (1 + options.get("alternatives", 1))

    estimated = expected_gradient(env, some_logits, learner.rollout, credited)
    exact = expected_gradient(env, some_logits, Trajectories(), of_episodes)
    assert len(exact) == 3  # a message, and what may answer it
    assert estimated.keys() == exact.keys()
    for row, gradient in exact.items():
        assert estimated[row] == pytest.approx(gradient, abs=1e-12)


def of_episodes(group: Group) -> Iterable[tuple[str, Completion, float]]:
    """Every completion with the return of its episode, as REINFORCE has it."""
    for episode in group.episodes:
        for turn in episode.turns:
            for agent, completion in turn.actions.items():
                yield agent, completion, episode.total


class Asked(Priced):
    """Texts of neither colour are worth what silence is."""

    def score(self, item: TaskItem, actions: Mapping[str, str]) -> Score:
        return super().score(item, {a: text if text in MENU else "" for a, text in actions.items()})


def lookup() -> str:
    """Look up the colour."""
    return "green"


def test_the_mean_gradient_of_call_credit_is_that_of_the_expected_return() -> None:
    """The left agent may call a tool before it answers; the right one has no tools, and so joint credit.

    Without a result, the left agent answers red.
    """
    menu = (*MENU, "lookup()")
    env = WithTools(Asked(ITEMS), [kit("oracle", lookup)], rounds=1, users={"oracle": ["left"]})
    learner = learner_for(env, credit="call")

    def chances(request: Request) -> Array:
        if request.history[-1].text.startswith("no result"):
            return np.array([1.0, 0.0, 0.0])
        first, second, call = uniforms(number_of(request.history), 3) + 0.1
        p = np.array([first, second, call * (request.agent == "agent_0" and len(request.history) == 1)])
        return p / p.sum()

    def credited(group: Group) -> Iterable[tuple[str, Completion, float]]:
        yield from ((s.agent, s.completion, s.advantage / 2) for s in learner.credit(group))

    estimated = expected_gradient(env, chances, learner.rollout, credited, menu=menu, width=2)
    exact = expected_gradient(env, chances, Trajectories(), of_episodes, menu=menu)
    assert len(exact) == 3  # both first texts, and the answer after a call
    assert estimated.keys() == exact.keys()
    for row, gradient in exact.items():
        assert estimated[row] == pytest.approx(gradient, abs=1e-12)


class Ending(Priced):
    """An episode ends with the first turn where both say red, else with the second."""

    prices = np.array([[1.0, 0.2, 0.3], [0.7, 0.4, 0.6], [0.5, 0.8, 0.0]])


def test_with_a_budget_texts_of_long_and_of_short_episodes_weigh_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """One text of an episode gets alternatives, of 2 or of 4; the draw of it is enumerated too."""
    env = Ending(ITEMS, max_turns=2)
    learner = learner_for(env, credit="message", budget=3)
    playing: list[Listed] = []
    chance = SimpleNamespace(permutation=lambda count: np.roll(np.arange(count), -playing[-1].pick(count)))
    monkeypatch.setattr(messages, "generator", lambda *seed: chance)

    def chances(request: Request) -> Array:
        return some_logits(request) if request.agent == "agent_0" or len(request.history) == 1 else np.array([0.0, 1.0])

    def credited(group: Group) -> Iterable[tuple[str, Completion, float]]:
        samples = list(learner.credit(group))
        assert {s.agent for s in samples if s.advantage} <= {samples[0].agent}
        for s in samples:
            yield s.agent, s.completion, s.weight * s.advantage / 2

    estimated = expected_gradient(env, chances, learner.rollout, credited, playing.append)
    exact = expected_gradient(env, chances, Trajectories(), of_episodes)
    assert estimated.keys() == exact.keys()
    for row, gradient in exact.items():
        assert estimated[row] == pytest.approx(gradient, abs=1e-12)


def learner_for(env: TextDecPOMDP, **options: Any) -> MAGRPO:
    """It gives credit; somebody else plays."""
    return MAGRPO(Team({agent: Softmax() for agent in env.possible_agents}), ONE_WORD, MAGRPO.Config(**options))


# --- who gets it ------------------------------------------------------------------------------------------------------

RELAY = runpy.run_path(str(Path(__file__).parents[2] / "research" / "relay_credit.py"))


@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["sequential", pytest.param("discussion", marks=pytest.mark.slow)])
def test_who_knows_something_gets_the_credit(protocol: str) -> None:
    """In a team whose listener says the first word that it hears, and whose speakers are right in 7 of 10 cases."""
    env = with_protocol(llm_dec_pomdp.make("relay-v0", n_agents=4), protocol)
    team = Team({agent: RELAY["Relaying"]() for agent in env.possible_agents})
    for against, times in (("drawn", 1.5), ("silence", 4)):
        mean = RELAY["sizes"](env, team, ONE_WORD, RELAY["COMPARED"][against], 2)
        assert mean["knowing"] > times * mean["other speakers"]
