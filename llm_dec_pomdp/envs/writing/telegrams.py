"""telegrams-v0: Several telegrams together carry as many words of a post as possible.

| fact | value |
|---|---|
| agents | agent_0 "sender 1" ... agent_{n-1} "sender n"; `n_agents` sets n, 1 to 8, 3 by default |
| turns | 1; `max_turns` sets more (rewards: `envs.turn_rewards`); agents then observe its counts |
| data | `trl-lib/tldr` (field `prompt`), train[:1000] / test[:1000], with `tasks="hub"` |
| offline | the 120 posts of tldr-v0 (the default) |
| return | 0 to 1.0 for every n |

Observation. Every agent observes the post, the number of telegrams and the number of its own telegram. No agent
observes the telegrams of its teammates, so they must divide the words without communication.

Action. Any text. Only the first 12 words count.

Reward. All agents receive the same reward, the sum of two components. W is the set of content words of the post (lower
case, without stop words). C_i is the set of words of W that telegram i carries. The goal is min(6 n, |W|) words:

| component | range | rule |
|---|---|---|
| carried | 0..0.8 | 0.8 c, c = min(1, size of the union of the C_i / goal) |
| distinct | 0..0.2 | 0.2 c d, d = size of the union of the C_i / sum of the sizes of the C_i |

What it tests. How return, tokens and response time grow with the number of agents: more senders carry more words and
repeat each other more often. The reward does not measure style; a telegram may be a list of words.

Source: written for this package. The stop words are those of tldr-v0.

Version history: v0, the first.

Example:
    >>> import llm_dec_pomdp
    >>> env = llm_dec_pomdp.make("telegrams-v0", n_agents=5)
    >>> env.role("agent_4")
    'sender 5'
    >>> _ = env.reset(options={"index": 0})
    >>> _, rewards, _, _, _ = env.step(dict(zip(env.agents, env.item.reference)))
    >>> rewards["agent_0"]
    1.0
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Unpack

from ...types import Score, TaskItem
from ..facts import Facts
from ..tasks import Tasks
from ..text_task import TextOptions, TextTask
from .text import lexicon, words_of
from .tldr import TLDR

MOST_AGENTS = 8
_WORDS = 12  # number of words of a telegram that count
_EACH = 6  # content words per telegram in the goal


class Telegrams(TextTask):
    """Carry a post in n telegrams; the module docstring describes the environment.

    Args:
        n_agents: Number of agents and telegrams, 1 to 8.
        tasks, common: See `TextTask`.
    """

    source = TLDR.source
    declared = Facts(
        name="telegrams-v0",
        components=("carried", "distinct"),
        diagnostics=("words_carried", "words_goal", "words_twice"),
        score_range=(0.0, 1.0),
        size="n_agents",
    )

    def __init__(self, tasks: Tasks = "sample", *, n_agents: int = 3, **common: Unpack[TextOptions]) -> None:
        if isinstance(n_agents, bool) or n_agents not in range(1, MOST_AGENTS + 1):
            raise ValueError(f"n_agents is {n_agents!r}; give a number of agents from 1 to {MOST_AGENTS}")
        self.declared = replace(self.declared, roles=tuple(f"sender {number}" for number in range(1, n_agents + 1)))
        super().__init__(tasks, **common)

    def problem(self, item: TaskItem) -> str:
        """Return why a row cannot be used, that is, if its post has only stop words; else ""."""
        return "" if _content(item) else "field 'prompt': has only stop words, so none can be carried; remove the row"

    def observe(self, item: TaskItem, agent: str) -> str:
        """Return the post, then the request."""
        number, count = self.possible_agents.index(agent) + 1, len(self.possible_agents)
        return (
            f"{item.prompt.strip()}\n\nThis post is sent as {count} telegrams of {_WORDS} words each, and you write "
            f"number {number}. Together they are to carry as many of its words as they can, none of them twice."
        )

    def score(self, item: TaskItem, actions: Mapping[str, str]) -> Score:
        """Return the reward for carried and for distinct content words; see the module."""
        content = _content(item)
        goal = self._goal(content)
        carried = Counter(
            word for agent in self.possible_agents for word in content.intersection(words_of(actions[agent])[:_WORDS])
        )
        share = min(1.0, len(carried) / goal) if goal else 0.0
        distinct = len(carried) / carried.total() if carried else 1.0
        parts = {"carried": 0.8 * share, "distinct": 0.2 * share * distinct}
        twice = sum(times > 1 for times in carried.values())
        facts = {"words_carried": len(carried), "words_goal": goal, "words_twice": twice}
        return Score(sum(parts.values()), parts, facts)

    def prepare(self, items: tuple[TaskItem, ...]) -> tuple[TaskItem, ...]:
        """Add references: the first content words of the post, assigned to the agents in turn."""
        return tuple(replace(item, reference=self._dealt(item)) for item in items)

    def _dealt(self, item: TaskItem) -> tuple[str, ...]:
        content, count = _content(item), len(self.possible_agents)
        dealt = [word for word in dict.fromkeys(words_of(item.prompt)) if word in content][: self._goal(content)]
        return tuple(" ".join(dealt[i::count]) for i in range(count))

    def respond(self, item: TaskItem, actions: Mapping[str, str], score: Score) -> Mapping[str, str]:
        """Return the counts of the turn, the same for all agents."""
        facts = score.diagnostics
        message = (
            f"The telegrams carried {facts['words_carried']:.0f} of {facts['words_goal']:.0f} words, "
            f"{facts['words_twice']:.0f} of them more than once. Write the complete new version of yours."
        )
        return dict.fromkeys(self.possible_agents, message)

    def _goal(self, content: set[str]) -> int:
        return min(_EACH * len(self.possible_agents), len(content))


def _content(item: TaskItem) -> set[str]:
    """Return the set of words of a post that are not stop words."""
    return set(words_of(item.prompt)) - lexicon()[1]
