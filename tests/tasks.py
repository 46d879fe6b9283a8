"""A task that tests of several files play: two agents, one point for each that says its reference."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from llm_dec_pomdp.envs.base import TextDecPOMDP
from llm_dec_pomdp.envs.facts import Facts
from llm_dec_pomdp.envs.tasks import TaskSource
from llm_dec_pomdp.envs.text_task import TextState, TextTask
from llm_dec_pomdp.types import Score, TaskItem

ITEMS = tuple(TaskItem(f"t{i}", f"post {i}", reference=("alpha", "beta")) for i in range(5))
WORDS = ("alpha", "beta", "gamma")


def references(env: TextDecPOMDP, item: TaskItem) -> dict[str, str]:
    """The joint action of an item's references."""
    return dict(zip(env.possible_agents, item.reference, strict=True))


class Duo(TextTask):
    declared = Facts(name="duo-v0", roles=("first", "second"), components=("hits",), score_range=(0.0, 2.0))
    source = TaskSource("duo", "acme/duo", {"train": "train"})

    def observe(self, item: TaskItem, agent: str) -> str:
        return f"{item.prompt}\n\nwrite the {self.role(agent)} part"

    def score(self, item: TaskItem, actions: Mapping[str, str]) -> Score:
        hits = float(sum(actions.get(agent) == text for agent, text in references(self, item).items()))
        return Score(hits, {"hits": hits})


class Graded(Duo):
    """The score is the number that the first agent says; 4 solves the task. It notes what it is given."""

    declared = replace(Duo.declared, score_range=(0.0, 4.0))

    def score(self, item: TaskItem, actions: Mapping[str, str]) -> Score:
        try:
            value = float(actions["agent_0"])
        except ValueError:
            value = 0.0
        value = value if math.isnan(value) else min(max(value, 0.0), 4.0)
        return Score(value, {"hits": value}, notes=dict(actions))

    def prepare(self, items: tuple[TaskItem, ...]) -> tuple[TaskItem, ...]:
        return tuple(replace(item, reference=("4", "4")) for item in items)


class Leaver(Duo):
    """agent_0 leaves after its first text; agent_1 plays on."""

    def roster(self, state: TextState) -> list[str]:
        return self.possible_agents[1:] if state.turn else self.possible_agents

    def respond(self, item: TaskItem, actions: Mapping[str, str], score: Score) -> Mapping[str, str]:
        return {"agent_1": "again"}

    def score(self, item: TaskItem, actions: Mapping[str, str]) -> Score:
        return super().score(item, {"agent_0": "alpha", **actions})


def duo(max_turns: int = 1, kind: type[Duo] = Duo) -> Duo:
    return kind(ITEMS, max_turns=max_turns)
