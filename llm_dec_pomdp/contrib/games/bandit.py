"""bandit-v0: One agent observes a context and has to answer with the word that belongs to it.

| fact | value |
|---|---|
| agents | agent_0 "player" |
| turns | 1; `max_turns` for more, with rewards as in `envs.turn_rewards`; no feedback on earlier turns |
| data | 8 tasks: the contexts c0 to c7, each with one of the words w0 to w7; the same for training and test |
| files | rows of `prompt` (the observation), `word` (w0 to w7) and `number`, the context's in the reward, from 0 to 7 |
| return | `offset` to `scale` + `offset` + 7 `slope`; optimum: their mean over the tasks with the right word |

Observation. The context.

Action. Any text. It is right if it is the word of the context and nothing else.

Reward. `offset` + `slope` x the number of the context for every text, and `scale` in addition for the right word. By
default the right word has the reward 1, and any other text 0. The options do not change the best action, but they
change how well learners find it. In reports 0 % is a player that is never right, and 100 % one that always is.

What it tests. Baselines and critics: units of the reward (`scale`), a large mean (`offset`), and different means for
different tasks (`slope`). A single baseline for all tasks fails with a large `slope`.

Source: written for this package. A uniform policy is right one time in eight.

Version history: v0, the first.

Example:
    >>> import llm_dec_pomdp
    >>> env = llm_dec_pomdp.make("bandit-v0", slope=10.0)
    >>> env.reset(options={"index": 2})[0]["agent_0"]
    'c2'
    >>> _, rewards, _, _, _ = env.step({"agent_0": "w7"})
    >>> rewards["agent_0"], env.facts.optimum
    (21.0, 36.0)
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Unpack

from llm_dec_pomdp.envs import Facts, Script, Tasks, TaskSource, TextOptions, TextTask
from llm_dec_pomdp.types import Message, Scale, Score, TaskItem

CONTEXTS = 8
WORDS = tuple(f"w{number}" for number in range(CONTEXTS))


def _tasks() -> list[TaskItem]:
    return [
        TaskItem(f"bandit/{c}", f"c{c}", fields={"word": WORDS[(3 * c + 1) % CONTEXTS], "number": str(c)})
        for c in range(CONTEXTS)
    ]


class Bandit(TextTask):
    """Environment with one right word for each context. See the module docstring.

    Args:
        scale: The additional reward of the right word, above 0.
        offset: The reward of every text, at least 0.
        slope: The additional reward of every text, for each step of the context's number, at least 0.
        tasks, common: See `TextTask`; the embedded tasks are in every split.
    """

    source = TaskSource("bandit", required=("prompt", "word", "number"), sample=_tasks, every_split=True)
    declared = Facts(
        name="bandit-v0",
        roles=("player",),
        components=("right", "context"),
        score_range=(0.0, 1.0),
        scripts=("optimal",),
    )

    def __init__(
        self,
        tasks: Tasks = "sample",
        *,
        scale: float = 1.0,
        offset: float = 0.0,
        slope: float = 0.0,
        **common: Unpack[TextOptions],
    ) -> None:
        for name, value in {"scale": scale, "offset": offset, "slope": slope}.items():
            if not 0 <= value < math.inf or (name == "scale" and not value):
                raise ValueError(f"{name} is {value!r}; give a finite number of at least 0 (scale: above 0)")
        self.scale, self.offset, self.slope = float(scale), float(offset), float(slope)
        super().__init__(tasks, **common)
        low, high = self.offset, self.scale + self.offset + (CONTEXTS - 1) * self.slope
        self.declared = replace(
            self.declared,
            score_range=(low, high),
            reference_share=(self.scale + self.offset) / high,
            silence_is_lowest=low == self.slope == 0.0,
            vocabulary=(*dict.fromkeys(word for item in self.items for word in item.prompt.split()), *WORDS),
        )

    def problem(self, item: TaskItem) -> str:
        """Return why word or number of a row are invalid; "" if they are valid."""
        if item.fields["word"] not in WORDS:
            return f"field 'word': {item.fields['word']!r} is unknown; give one of {', '.join(WORDS)}"
        if item.fields["number"] not in map(str, range(CONTEXTS)):
            return f"field 'number': {item.fields['number']!r} is no context; give a number from 0 to {CONTEXTS - 1}"
        return ""

    @property
    def facts(self) -> Facts:
        """The facts: never right is 0 %, always right 100 %, on average over tasks. The optimum needs "final"."""
        worth = sum(map(self._context, self.items)) / len(self.items)
        scale = Scale(worth, worth + self.scale)
        return replace(super().facts, scale=scale, optimum=scale.high if self.turn_reward == "final" else None)

    def _context(self, item: TaskItem) -> float:
        """Return the reward of every text in a context."""
        return self.offset + self.slope * int(item.fields["number"])

    def choices(self, agent: str, history: Sequence[Message] = ()) -> Sequence[str]:
        """Return the words."""
        return WORDS

    def observe(self, item: TaskItem, agent: str) -> str:
        """Return the context."""
        return item.prompt

    def score(self, item: TaskItem, actions: Mapping[str, str]) -> Score:
        """Compute the reward, the sum of the parts for the right word and for the context."""
        right = self.scale * (actions["agent_0"].strip() == item.fields["word"])
        context = self._context(item)
        return Score(right + context, {"right": right, "context": context})

    def prepare(self, items: tuple[TaskItem, ...]) -> tuple[TaskItem, ...]:
        """Return the rows with the words of their contexts as references."""
        return tuple(replace(item, reference=(item.fields["word"],)) for item in items)

    def script(self, name: str) -> Script:
        """Return the team "optimal", which answers with the word of the context."""
        return self._optimal if name == "optimal" else super().script(name)

    def _optimal(self, agent: str, history: Sequence[Message]) -> str:
        word = next((item.fields["word"] for item in self.items if item.prompt == history[0].text), None)
        if word is None:
            raise ValueError(f"bandit-v0 has no context {history[0].text!r:.60}; give a history of this environment")
        return word
