"""A task that tests of several files play: two agents, one point for each that says its reference."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from llm_dec_pomdp.envs.base import StepResult
from llm_dec_pomdp.envs.tasks import TaskSource
from llm_dec_pomdp.envs.text_task import TextTask
from llm_dec_pomdp.types import Score, TaskItem

ITEMS = tuple(TaskItem(f"t{i}", f"post {i}", reference=("alpha", "beta")) for i in range(5))
WORDS = ("alpha", "beta", "gamma")


class Duo(TextTask):
    metadata: dict[str, Any] = {**TextTask.metadata, "name": "duo-v0"}
    roles = ("first", "second")
    components = ("hits",)
    score_range = (0.0, 2.0)
    max_return = 2.0
    source = TaskSource("duo", "acme/duo", {"train": "train"})

    def observe(self, item: TaskItem, agent: str) -> str:
        return f"{item.prompt}\n\nwrite the {self.role(agent)} part"

    def score(self, item: TaskItem, actions: Mapping[str, str]) -> Score:
        hits = float(sum(actions.get(agent) == text for agent, text in self.gold(item).items()))
        return Score(hits, {"hits": hits})


class Leaver(Duo):
    """agent_0 leaves after its first text; agent_1 plays on."""

    def step(self, actions: Mapping[str, str]) -> StepResult:
        live = list(self.agents)
        filled = actions
        if live == ["agent_1"]:
            self.agents, filled = list(self.possible_agents), {"agent_0": "alpha", **actions}
        observations, rewards, terminations, truncations, infos = super().step(filled)
        if self.agents:
            terminations["agent_0"] = True
            self.agents = ["agent_1"]
        parts = (observations, rewards, terminations, truncations, infos)
        return tuple({agent: part[agent] for agent in live} for part in parts)  # type: ignore[return-value]


def duo(max_turns: int = 1, kind: type[Duo] = Duo) -> Duo:
    return kind(ITEMS, max_turns=max_turns)
