"""Draw the episode of docs/hierarchy.md: calls of agents, results of tools and sub-agents, and rewards.

    python scripts/draw_rollout.py

A column is an agent, and time runs downwards. A test fails if the picture is out of date.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path

import llm_dec_pomdp
from llm_dec_pomdp.types import Event

LANE, LINE, CHARACTERS = 300, 17, 40  # width of a column, height of a line of text, characters per line of text
PLAYED = ("research-v0", "optimal", "train/2/3")  # environment, scripted team, task: two sub-agents at once
PICTURE = Path(__file__).parent.parent / "docs" / "hierarchy_rollout.svg"
HEAD = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="13">\n'
    '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
    '<path d="M0 0L8 4L0 8z" fill="#555"/></marker></defs>\n<rect width="{width}" height="{height}" fill="#fff"/>'
)


class Picture:
    """SVG picture that grows downwards.

    Args:
        agents: Names of the agents; each has a column.
    """

    def __init__(self, agents: Sequence[str]) -> None:
        self.x = {agent: LANE * number + 24 for number, agent in enumerate(agents)}
        self.y = dict.fromkeys(agents, 10)  # y of the next text of each agent
        self.parts: list[str] = []

    def text(self, agent: str, words: str, colour: str = "#222") -> None:
        """Add wrapped text to the right of the line of an agent."""
        for line in textwrap.wrap(words, CHARACTERS):
            self.y[agent] += LINE
            place = f'x="{self.x[agent] + 10}" y="{self.y[agent]}"'
            self.parts.append(f'<text {place} fill="{colour}">{escape(line)}</text>')
        self.y[agent] += 6

    def level(self) -> int:
        """Move all agents below everything drawn so far, and return this y."""
        lowest = max(self.y.values())
        self.y = dict.fromkeys(self.y, lowest)
        return lowest

    def arrow(self, start: str, end: str) -> None:
        """Add an arrow from the line of one agent to the line of another."""
        y = self.level() + 8
        self.y = dict.fromkeys(self.y, y)
        path = f"M{self.x[start]} {y}H{self.x[end]}"
        self.parts.append(f'<path d="{path}" stroke="#555" fill="none" marker-end="url(#tip)"/>')

    def drawn(self) -> str:
        """Return the whole picture, with a vertical line for every agent."""
        bottom = self.level() + 8
        lines = [f'<path d="M{x} 10V{bottom}" stroke="#bbb" stroke-width="3"/>' for x in self.x.values()]
        head = HEAD.format(width=LANE * len(self.x) + 24, height=bottom + 10)
        return "\n".join([head, *lines, *self.parts, "</svg>\n"])


def draw(env_id: str, script: str, task: str) -> str:
    """Play a task with a scripted team, and draw the episode.

    Args:
        env_id: An environment whose main agent calls sub-agents.
        script: The name of one of its scripted teams.
        task: Id of the task.
    """
    env = llm_dec_pomdp.make(env_id)
    say = env.script(script)
    env.reset(seed=0, options={"task_id": task})
    asker, question = env.agents[0], env.item.prompt
    happened: list[tuple[Mapping[str, str], Sequence[Event]]] = []
    rewards: dict[str, float] = {}
    while env.agents:
        texts = {agent: say(agent, env.history(agent)) if env.asked(agent) else "" for agent in env.agents}
        _, rewards, *_ = env.step(texts)
        happened.append(({agent: text for agent, text in texts.items() if text}, env.latest.transition.events))
    picture = Picture(list(rewards))
    for agent in rewards:
        picture.text(agent, f"{agent} ({env.role(agent)})", "#000")
    picture.text(asker, f"is told: {question}", "#777")
    for texts, events in happened:
        picture.level()
        for agent, text in texts.items():
            picture.text(agent, f"says: {text}")
        for event in events:
            _draw_event(picture, asker, event)
    picture.level()
    for agent, reward in rewards.items():
        picture.text(agent, f"earns {reward:.2f}", "#0a6")
    return picture.drawn()


def _draw_event(picture: Picture, asker: str, event: Event) -> None:
    if event.kind == "spawn":
        picture.arrow(event.details["by"], event.agent)
        picture.text(event.agent, f"is told: {event.details['subtask']}", "#777")
    elif event.kind == "result":
        picture.text(event.agent, f"reads: {event.details['output']}", "#777")
    elif event.kind == "return":
        picture.arrow(event.agent, asker)
        picture.text(asker, f"is told: {event.details['report']}", "#777")


def main() -> None:
    """Write the picture."""
    PICTURE.write_text(draw(*PLAYED), encoding="utf-8")
    print(f"wrote {PICTURE}")


if __name__ == "__main__":
    main()
