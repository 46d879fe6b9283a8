"""Two doors: agents whose single-agent twin knows more, for the suite `distil_privileged`.

    [[environments]]
    id = "research.candidates.doors:Doors"
    options = { shows = "mate" }

Each of two agents has a door, left or right, and opens one or waits. An agent receives 1 for its own door, `waiting`
(0.6) for `wait`, and 0 for everything else; the team's reward is the mean. With `shows = "own"` an agent observes its
own door. With `shows = "mate"` it observes the door of its teammate, and there are no messages: waiting is the best
that a team can do, with a return of 60 %. A single agent observes both doors and can reach 100 %.

Run as a program, this file prints the joint actions of such an agent, as a source for `imitation`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from llm_dec_pomdp.envs import Facts, TaskSource, TextTask
from llm_dec_pomdp.types import Score, TaskItem

DOORS = ("left", "right")


class Words(Facts):
    """Facts whose parts may begin in the middle of a line, since word models write no line breaks."""

    def split(self, text: str) -> tuple[str, ...]:
        """Split the text of a single agent; see `Facts`."""
        return super().split(re.sub(r"(\[\w+\])", r"\n\1", text))


def tasks() -> list[TaskItem]:
    return [TaskItem(f"{a}/{b}", "open", fields={"north": a, "south": b}) for a in DOORS for b in DOORS]


class Doors(TextTask):
    """Two agents open a door each or wait."""

    source = TaskSource("doors", required=("prompt", "north", "south"), sample=tasks, every_split=True)
    declared = Words(
        name="doors-v0",
        roles=("north", "south"),
        components=("doors",),
        score_range=(0.0, 1.0),
        vocabulary=(*DOORS, "wait", "door", "of", "[north]", "[south]", "north", "south"),
    )

    def __init__(self, tasks: Any = "sample", *, shows: str = "own", waiting: float = 0.6, **common: Any) -> None:
        self.shows, self.waiting = shows, waiting
        super().__init__(tasks, **common)

    def observe(self, item: TaskItem, agent: str) -> str:
        """Return the door of the agent itself or of its teammate."""
        own, mate = self.declared.roles if agent == self.possible_agents[0] else self.declared.roles[::-1]
        seen = own if self.shows == "own" else mate
        return f"door of {seen} {item.fields[seen]}"

    def score(self, item: TaskItem, actions: Mapping[str, str]) -> Score:
        """Return the mean reward of both agents."""
        pairs = zip(self.declared.roles, self.possible_agents, strict=True)
        earned = [
            {item.fields[role]: 1.0, "wait": self.waiting}.get(actions[agent].strip(), 0.0) for role, agent in pairs
        ]
        value = sum(earned) / len(earned)
        return Score(value, {"doors": value})

    def choices(self, agent: str, history: Any = ()) -> list[str]:
        """Return the doors and waiting."""
        return [*DOORS, "wait"]


if __name__ == "__main__":  # the joint actions of a single agent, for `imitation`
    for item in tasks():
        text = " ".join(f"[{role}] {item.fields[role]}" for role in Doors.declared.roles)
        print(json.dumps({"task": item.id, "texts": {"agent_0": text}}))
