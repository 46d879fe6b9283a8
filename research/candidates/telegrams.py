"""telegrams-v0 for tables: each sender chooses which part of the post it sends, for the suite `partners`.

    [[environments]]
    id = "research.candidates.telegrams:parts"
    label = "telegrams-v0 parts"

A post has as many parts as senders, of six content words each. The goal is reached if every sender sends another part.
Run the suite in the root folder of the repository with `--trust`, so that `research` can be imported.
"""

from __future__ import annotations

from typing import Any

from llm_dec_pomdp.envs import TextDecPOMDP
from llm_dec_pomdp.envs.wrappers import Choices
from llm_dec_pomdp.envs.writing.telegrams import Telegrams
from llm_dec_pomdp.types import TaskItem


def parts(*, posts: int = 8, **options: Any) -> TextDecPOMDP:
    """Build `telegrams-v0` whose senders choose a part of the post.

    Args:
        posts: Number of posts, the first ones with enough words.
        options: Options of the environment.
    """
    task = Telegrams(**options)
    senders = len(task.possible_agents)

    def offers(item: TaskItem, role: str) -> dict[str, str]:
        dealt = [text.split() for text in item.reference or ()]
        words = [word for turn in zip(*dealt, strict=False) for word in turn]  # in the order of the post
        return {f"part {n + 1}": " ".join(words[6 * n : 6 * n + 6]) for n in range(senders)}

    full = [item for item in task.items if sum(len(text.split()) for text in item.reference or ()) == 6 * senders]
    return Choices(task.with_items(full[:posts]), offers)
