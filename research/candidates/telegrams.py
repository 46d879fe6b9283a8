"""Telegrams that senders choose among, for tables: who sends which part of a post is a convention.

    [[environments]]
    id = "research.candidates.telegrams:parts"
    options = { count = 8 }

Run a suite with it in the root folder of the repository with `--trust`, so that `research` can be imported.
"""

from __future__ import annotations

from typing import Any

import llm_dec_pomdp
from llm_dec_pomdp.envs import TextDecPOMDP
from llm_dec_pomdp.envs.wrappers import Choices


def parts(*, count: int = 8, **options: Any) -> TextDecPOMDP:
    """Build `telegrams-v0` in which every sender chooses one of the reference telegrams of the post.

    The return is 1 if all senders choose different telegrams. With n senders there are n! ways to do this.

    Args:
        count: Number of posts, which are the same for training and evaluation.
        options: Options of `telegrams-v0`.
    """
    env = llm_dec_pomdp.make("telegrams-v0", **{**options, "split": "train"})
    kinds = [f"part {number}" for number in range(1, len(env.possible_agents) + 1)]
    return Choices(env.with_items(env.items[:count]), lambda item, role: dict(zip(kinds, item.reference, strict=True)))
