"""acme/meet-v0: two people in a strange town name a place to meet, without a word between them.

| fact | value |
|---|---|
| agents | agent_0 "ann", agent_1 "ben" |
| turns | 1 (`max_turns` for more: each next turn asks for a revision) |
| data | 40 towns sampled by this module, 30 to train and 10 to test; or files with `prompt`, `ann` and `ben` |
| return | 0 to 2.0; a team that knows both starting places reaches 2.0, any other team has to guess |

Observation. The map, one street per line (`Bakery - Bridge`), and the place of this agent, but not the place of the
other agent. With the protocol "centralized", a single agent observes both places; with "sequential", ben observes the
action of ann.

Action. Any text that names exactly one place of the town.

Reward (one float for the team):

| component | range | rule |
|---|---|---|
| valid | 0..0.5 | 0.25 for each agent that names one place and no other |
| same | 0 or 0.5 | 0.5 if both name the same place |
| near | 0..1 | if same: (best + 1) / (time + 1); time: streets until the later agent arrives; best: the minimum |

Version history: v0, first version.

Example:
    >>> import llm_dec_pomdp
    >>> env = llm_dec_pomdp.make("acme/meet-v0")
    >>> observations, infos = env.reset(seed=0)
    >>> _, rewards, *_ = env.step(dict(zip(env.agents, env.item.reference)))
    >>> rewards
    {'agent_0': 2.0, 'agent_1': 2.0}
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping

from llm_dec_pomdp.envs import TaskSource, TextTask
from llm_dec_pomdp.envs.facts import Facts
from llm_dec_pomdp.types import Score, TaskItem

PLACES = "Bakery Bridge Castle Church Fountain Harbour Library Market Mill Museum Park School Station Theatre".split()


def distances(town: str, start: str) -> dict[str, int]:
    """Return the number of streets from `start` to every place that can be reached."""
    streets: list[tuple[str, str]] = re.findall(r"(?m)^(\w+) - (\w+)$", town)
    found, edge = {start: 0}, [start]
    while edge:
        here = edge.pop(0)
        for place, other in (*streets, *((b, a) for a, b in streets)):
            if place == here and other not in found:
                found[other] = found[here] + 1
                edge.append(other)
    return found


def times(item: TaskItem) -> dict[str, int]:
    """Return the time at which both agents are there, in streets, for every place that both can reach."""
    ann, ben = (distances(item.prompt, item.fields[name]) for name in Meet.declared.roles)
    return {place: max(ann[place], ben[place]) for place in ann if place in ben}


def towns(count: int = 40) -> list[TaskItem]:
    """Return fixed pseudo-random towns: eight connected places, and two people in different places."""
    items: list[TaskItem] = []
    for number in range(count):
        draw = random.Random(number)
        places = draw.sample(PLACES, 8)
        pairs = [(place, draw.choice(places[:i])) for i, place in enumerate(places) if i]
        pairs += [(a, b) for a, b in [draw.sample(places, 2)] if (a, b) not in pairs and (b, a) not in pairs]
        ann, ben = draw.sample(places, 2)
        prompt = "The streets of a town:\n" + "\n".join(f"{a} - {b}" for a, b in pairs)
        item = TaskItem(f"town/{number}", prompt, "train" if number % 4 else "test", fields={"ann": ann, "ben": ben})
        best = min(times(item).items(), key=lambda pair: (pair[1], pair[0]))[0]
        items.append(TaskItem(item.id, prompt, item.split, (best, best), item.fields))
    return items


class Meet(TextTask):
    """A task in which both agents name the same place, near to both; see the module."""

    declared = Facts(
        name="acme/meet-v0", roles=("ann", "ben"), components=("valid", "same", "near"), score_range=(0.0, 2.0)
    )
    source = TaskSource("meet", required=("prompt", "ann", "ben"), sample=towns)

    def observe(self, item: TaskItem, agent: str) -> str:
        """Return the map, and the place of this agent."""
        return (
            f"{item.prompt}\n\nYou are at the {item.fields[self.role(agent)]}. Your partner is somewhere else, and you "
            "cannot talk. Name one place where both of you will soon meet. Answer with its name only."
        )

    def score(self, item: TaskItem, actions: Mapping[str, str]) -> Score:
        """Return the score: valid names, the same name, a near place."""
        when = times(item)
        named = [{place for place in when if re.search(rf"(?i)\b{place}\b", text)} for text in actions.values()]
        same = named[0] == named[1] and len(named[0]) == 1
        parts = {
            "valid": sum(0.25 for places in named if len(places) == 1),
            "same": 0.5 if same else 0.0,
            "near": (min(when.values()) + 1) / (when[named[0].pop()] + 1) if same else 0.0,
        }
        return Score(sum(parts.values()), parts)
