"""The smallest task of two agents: what the contract of environments is tested on."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from tasks import references

from llm_dec_pomdp.envs.facts import Facts
from llm_dec_pomdp.envs.tasks import TaskSource
from llm_dec_pomdp.envs.text_task import TextTask
from llm_dec_pomdp.types import Score, TaskItem

ITEMS = tuple(
    TaskItem(f"t{i}", f"question {i}", reference=(f"secret-{i}a", f"secret-{i}b"), fields={"test": f"hidden-{i}"})
    for i in range(6)
)
MISS = {"agent_0": "no", "agent_1": "idea"}


class Toy(TextTask):
    """One point for each agent that says its reference; "?" as first text cannot be scored."""

    declared = Facts(name="toy-v0", roles=("asker", "answerer"), components=("first", "second"), score_range=(0.0, 2.0))
    source = TaskSource("toy", "acme/toy", {"train": "train"})

    def observe(self, item: TaskItem, agent: str) -> str:
        return f"{item.prompt}, {self.role(agent)}?"

    def score(self, item: TaskItem, actions: Mapping[str, str]) -> Score:
        hits = [float(actions.get(agent) == text) for agent, text in references(self, item).items()]
        parts = dict(zip(self.declared.components, hits, strict=True))
        total = math.nan if actions["agent_0"] == "?" else sum(hits)
        return Score(total, parts, notes={"action": actions["agent_0"]})


def toy(**kwargs: Any) -> Toy:
    return Toy(ITEMS, **kwargs)


def playing(index: int = 0, **kwargs: Any) -> Toy:
    env = toy(**kwargs)
    env.reset(seed=0, options={"index": index})
    return env


def chosen(env: Toy, seed: int | None, count: int) -> list[str]:
    env.reset(seed=seed)
    first = env.item.id
    rest: list[str] = []
    for _ in range(count - 1):
        env.reset()
        rest.append(env.item.id)
    return [first, *rest]
