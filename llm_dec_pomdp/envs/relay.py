"""relay-v0: One of n agents is told a word, and the last one, who is told nothing, has to say it.

| fact | value |
|---|---|
| agents | agent_0 "speaker 1" ... agent_{n-2} "speaker n-1", agent_{n-1} "listener", n from 2 to 5 (`n_agents`, 3) |
| turns | 1; `max_turns` for more, which pay as in `envs.turn_rewards`; nobody is told how the last try went |
| data | 48 tasks: 4 words x 12, dealt out to the speakers evenly; the same for training and test |
| files | rows of `prompt` (the request to the listener), `word`, and `speaker`, the number of who is told it, from 0 |
| return | 0 to 1.0 |

Observation. One speaker is told the word; the other speakers are told that they do not know it, and the listener is
asked for it.

Action. Any text. The listener's counts where it is one of the words red, green, blue, black, in any case, and nothing
else.

Reward (one float for the team): 1 if the listener says the word, else 0. What speakers say only helps the listener, and
only under a protocol in which agents read each other ("sequential", "discussion"). Without one the listener guesses,
and is right one time in four.

What it tests. Credit assignment: one speaker can help, the others at best keep quiet, and a joint reward praises and
blames all of them alike.

Source: this suite's own.

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
NOTHING = "pass"  # what a speaker says who does not know the word
MOST_AGENTS = 5
_ROWS = 12  # per word: every number of speakers divides it


def _tasks() -> list[TaskItem]:
    fields = [{"word": word, "speaker": str(number)} for word in WORDS for number in range(_ROWS)]
    return [TaskItem(f"relay/{f['word']}/{f['speaker']}", "Name the word.", fields=f) for f in fields]


class Relay(TextTask):
    """A word and who knows it; the module is the manual.

    Args:
        n_agents: The speakers and the listener, 2 to 5.
        tasks, common: See `TextTask`; the embedded tasks are in every split.
    """

    source = TaskSource("relay", required=("prompt", "word", "speaker"), sample=_tasks, every_split=True)
    declared = Facts(name="relay-v0", components=("right",), score_range=(0.0, 1.0), needs_messages=True)

    def __init__(self, tasks: Tasks = "sample", *, n_agents: int = 3, **common: Unpack[TextOptions]) -> None:
        if isinstance(n_agents, bool) or n_agents not in range(2, MOST_AGENTS + 1):
            raise ValueError(f"n_agents is {n_agents!r}; a word is relayed by 2 to {MOST_AGENTS} agents")
        speakers = (f"speaker {number}" for number in range(1, n_agents))
        self.declared = replace(self.declared, roles=(*speakers, "listener"))
        super().__init__(tasks, **common)

    def problem(self, item: TaskItem) -> str:
        """A word that is none of `WORDS`, or a speaker that is no number."""
        if item.fields["word"] not in WORDS:
            return f"field 'word': {item.fields['word']!r} is none of {WORDS}"
        if not re.fullmatch("[0-9]{1,9}", item.fields["speaker"]):
            return f"field 'speaker': {item.fields['speaker']!r:.60} is not a number from 0 on, of 9 digits at most"
        return ""

    def knowing(self, item: TaskItem) -> str:
        """The agent that is told the word: the number of the row, modulo the number of speakers."""
        return self.possible_agents[int(item.fields["speaker"]) % (len(self.possible_agents) - 1)]

    def choices(self, agent: str, history: Sequence[Message] = ()) -> Sequence[str]:
        """The words, and for a speaker one that is none of them."""
        return WORDS if agent == self.possible_agents[-1] else (*WORDS, NOTHING)

    def observe(self, item: TaskItem, agent: str) -> str:
        """The word, or that it is not known, or the request."""
        if agent == self.possible_agents[-1]:
            return item.prompt
        if agent == self.knowing(item):
            return f"The word is {item.fields['word']}. Tell the listener."
        return f"You do not know the word. Say {NOTHING}."

    def score(self, item: TaskItem, actions: Mapping[str, str]) -> Score:
        """Whether the listener says the word."""
        word = actions[self.possible_agents[-1]].strip().lower()
        value = float(word == item.fields["word"])
        return Score(value, {"right": value})

    def prepare(self, items: tuple[TaskItem, ...]) -> tuple[TaskItem, ...]:
        """With references: who knows the word says it, the others say `NOTHING`, and the listener says the word."""
        return tuple(replace(item, reference=self._reference(item)) for item in items)

    def _reference(self, item: TaskItem) -> tuple[str, ...]:
        word, telling = item.fields["word"], (self.knowing(item), self.possible_agents[-1])
        return tuple(word if agent in telling else NOTHING for agent in self.possible_agents)
