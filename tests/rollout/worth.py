"""Environments in which every joint action has a worth of its own, and who plays them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from models import COLOURS, ITEMS, Match

from llm_dec_pomdp.agents import Policy, Sampling, Team
from llm_dec_pomdp.rollout import Calls, Counterfactual, Crossed, Messages, Rollout, Trajectories, Tree
from llm_dec_pomdp.seeding import generator
from llm_dec_pomdp.types import Completion, Decision, Group, Score, TaskItem

SAMPLING = Sampling(max_new_tokens=3)
ROLLOUTS: list[Rollout] = [
    Trajectories(),
    Trajectories("own"),
    Crossed(),
    Tree(),
    Tree("cross"),
    Counterfactual("frozen"),
    Counterfactual("resampled"),
    Calls(),
    Messages(),
    Messages("frozen", alternatives=2, silence=True),
]


class Colours(Policy):
    """Says a random colour that follows from the seed, and whether its history was heard before."""

    def generate(self, requests: Sequence[Any], sampling: Sampling) -> list[list[Completion]]:
        return [
            [Completion(COLOURS[int(generator(s).integers(4))], (0,), (1,), (0.0,)) for s in r.seeds] for r in requests
        ]


class Numbers(Match):
    """TurnReward for every text, agent by agent, so that each joint action has its own value; counts what it judges."""

    judged: list[tuple[str, ...]]
    worth = {"agent_0": 1.0, "agent_1": 10.0}

    def score(self, item: TaskItem, actions: Mapping[str, str]) -> Score:
        self.judged.append(tuple(actions.values()))
        value = sum(w * COLOURS.index(actions[a]) for a, w in self.worth.items() if actions[a] in COLOURS)
        return Score(value, {"match": value})


class Echo(Numbers):
    """Tells every agent at the next turn what agent_0 said."""

    declared = replace(Numbers.declared, best=math.inf)

    def respond(self, item: TaskItem, actions: Mapping[str, str], score: Score) -> Mapping[str, str]:
        heard = self.history("agent_0")[-1].text
        return dict.fromkeys(self.possible_agents, f"agent_0 said {heard}; again")


class Deaf(Numbers):
    """Nobody hears anything."""

    declared = replace(Numbers.declared, best=math.inf)


def numbers(kind: type[Numbers] = Deaf, **kwargs: Any) -> Numbers:
    env = kind(ITEMS, **kwargs)
    env.judged = []
    return env


def play(env: Any, rollout: Rollout, size: int = 3, ids: Sequence[str] = ("t1",), policy: Any = None) -> list[Group]:
    team = Team(dict.fromkeys(env.possible_agents, policy or Colours()))
    return rollout.play(env, team, ids, range(len(ids)), SAMPLING, size)


def value(env: Numbers, texts: Mapping[str, str]) -> float:
    return env.score(ITEMS[0], texts).total


def texts_of(decision: Decision, choice: Sequence[int]) -> dict[str, str]:
    return {agent: drawn[k].text for (agent, drawn), k in zip(decision.actions.items(), choice, strict=True)}
