"""relay-v0: One of n agents observes a word, and the last agent, which does not observe it, must answer with it.

| fact | value |
|---|---|
| agents | agent_0 "speaker 1" ... agent_{n-2} "speaker n-1", agent_{n-1} "listener"; `n_agents` sets n, 2 to 5 (3) |
| turns | 1; `max_turns` sets more (rewards: `envs.turn_rewards`); agents do not observe the result of the last turn |
| data | 48 tasks: 4 words x 12, distributed evenly over the speakers; the same tasks for training and test |
| files | rows with `prompt` (the request to the listener), `word`, and `speaker`, the number of the informed speaker |
| return | 0 to 1.0 |

Observation. One speaker, the informed one, observes the word. The other speakers observe that they do not know it. The
listener observes a request for the word.

Action. Any text. The text of the listener is right if it is exactly the word (red, green, blue or black), in any case
and with spaces around it.

Reward. All agents receive the same reward: 1 if the listener's text is the word, else 0. The texts of speakers matter
only under a protocol that passes texts on ("sequential", "discussion"). Under the default protocol the listener can
only guess, and is right with probability 1/4.

What it tests. Credit assignment: only the informed speaker can help, and any other speaker can at best say nothing
useful. The joint reward is the same for all of them.

Source: written for this package.

Version history: v0, the first.

Example:
    >>> import llm_dec_pomdp
    >>> env = llm_dec_pomdp.make("relay-v0")
    >>> env.reset(options={"index": 0})[0]["agent_0"]
    'The word is red. Tell the listener.'
    >>> _, rewards, _, _, _ = env.step({"agent_0": "red", "agent_1": "pass", "agent_2": "red"})
    >>> rewards["agent_0"]
    1.0
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Unpack

from ..types import Message, Score, TaskItem
from .facts import Facts
from .tasks import Tasks, TaskSource
from .text_task import TextOptions, TextTask

WORDS = ("red", "green", "blue", "black")
NOTHING = "pass"  # the text of a speaker that does not know the word
MOST_AGENTS = 5
_ROWS = 12  # per word; divisible by every number of speakers


def _tasks() -> list[TaskItem]:
    fields = [{"word": word, "speaker": str(number)} for word in WORDS for number in range(_ROWS)]
    return [TaskItem(f"relay/{f['word']}/{f['speaker']}", "Name the word.", fields=f) for f in fields]


class Relay(TextTask):
    """A word that one speaker knows; the module docstring describes the environment.

    Args:
        n_agents: Number of speakers and the listener, 2 to 5.
        tasks, common: See `TextTask`; the embedded tasks are in every split.
    """

    source = TaskSource("relay", required=("prompt", "word", "speaker"), sample=_tasks, every_split=True)
    declared = Facts(
        name="relay-v0", components=("right",), score_range=(0.0, 1.0), needs_messages=True, size="n_agents"
    )

    def __init__(self, tasks: Tasks = "sample", *, n_agents: int = 3, **common: Unpack[TextOptions]) -> None:
        if isinstance(n_agents, bool) or n_agents not in range(2, MOST_AGENTS + 1):
            raise ValueError(f"n_agents is {n_agents!r}; give a number of agents from 2 to {MOST_AGENTS}")
        speakers = (f"speaker {number}" for number in range(1, n_agents))
        self.declared = replace(self.declared, roles=(*speakers, "listener"))
        super().__init__(tasks, **common)

    def problem(self, item: TaskItem) -> str:
        """Return why a row cannot be used: its word is none of `WORDS`, or its speaker no number; else ""."""
        if item.fields["word"] not in WORDS:
            return f"field 'word': is {item.fields['word']!r}; give one of {WORDS}"
        if not re.fullmatch("[0-9]{1,9}", item.fields["speaker"]):
            return f"field 'speaker': is {item.fields['speaker']!r:.60}; give an integer of at most 9 digits, from 0"
        return ""

    def knowing(self, item: TaskItem) -> str:
        """Return the agent that observes the word: the speaker number of the row, modulo the number of speakers."""
        return self.possible_agents[int(item.fields["speaker"]) % (len(self.possible_agents) - 1)]

    def choices(self, agent: str, history: Sequence[Message] = ()) -> Sequence[str]:
        """Return the words, and for a speaker also `NOTHING`."""
        return WORDS if agent == self.possible_agents[-1] else (*WORDS, NOTHING)

    def observe(self, item: TaskItem, agent: str) -> str:
        """Return the request for the listener, the word for the informed speaker, and a notice for other speakers."""
        if agent == self.possible_agents[-1]:
            return item.prompt
        if agent == self.knowing(item):
            return f"The word is {item.fields['word']}. Tell the listener."
        return f"You do not know the word. Say {NOTHING}."

    def score(self, item: TaskItem, actions: Mapping[str, str]) -> Score:
        """Return 1 if the text of the listener is the word, else 0."""
        word = actions[self.possible_agents[-1]].strip().lower()
        value = float(word == item.fields["word"])
        return Score(value, {"right": value})

    def prepare(self, items: tuple[TaskItem, ...]) -> tuple[TaskItem, ...]:
        """Add references: the word for the informed speaker and the listener, `NOTHING` for the other speakers."""
        return tuple(replace(item, reference=self._reference(item)) for item in items)

    def _reference(self, item: TaskItem) -> tuple[str, ...]:
        word, telling = item.fields["word"], (self.knowing(item), self.possible_agents[-1])
        return tuple(word if agent in telling else NOTHING for agent in self.possible_agents)
