"""Any text is an action: thousands of broken ones through every environment, and no exception.

LLM_DEC_POMDP_FUZZ=20000 sets how many texts each environment gets; 2,000 when left out.
"""

from __future__ import annotations

import math
import os

import numpy as np
import pytest

import llm_dec_pomdp
from llm_dec_pomdp.envs.base import TextDecPOMDP, step_many
from llm_dec_pomdp.seeding import generator

COUNT = int(os.environ.get("LLM_DEC_POMDP_FUZZ", "2000"))
CODE = "``` ```python def aux(x): return import class { } ( ) [ ] # \\"
PIECES = (
    *("\0", "\ud800", "\u202e", "\u2028", "\r", "\x1b[31m", "\t", "\n", "\n\n", " ", '"""', "'''", *CODE.split()),
    *("so but if as", "[PARAGRAPH_SPLIT]", "    return x\n", "é" * 40, "字", "🙂", "nan", "-1e400", "%s{0}"),
)


def mutated(text: str, rng: np.random.Generator) -> str:
    """A text with pieces cut out, doubled, and put in where they do not belong."""
    for _ in range(int(rng.integers(1, 7))):
        start, end = sorted(rng.integers(0, len(text) + 1, size=2).tolist())
        piece = PIECES[int(rng.integers(len(PIECES)))]
        kind = int(rng.integers(4))
        middle = ("", text[start:end][:400] * 2, piece, text[start:end][::-1])[kind]
        text = text[:start] + middle + text[end:]
    return text[:20_000]


def fuzzed(env: TextDecPOMDP, number: int) -> dict[str, str]:
    """Gold texts, broken."""
    item = env.items[number % len(env.items)]
    return {agent: mutated(text, generator(number, agent)) for agent, text in env.gold(item).items()}


@pytest.mark.parametrize("env_id", list(llm_dec_pomdp.registry))
def test_no_text_breaks_an_environment(env_id: str) -> None:
    parent = llm_dec_pomdp.make(env_id, split="all")
    low, high = parent.reward_range
    agents = len(parent.possible_agents)
    rounds = math.ceil(COUNT / agents)
    for first in range(0, rounds, 32):
        envs = [parent.fork() for _ in range(min(32, rounds - first))]
        for i, env in enumerate(envs):
            env.reset(options={"index": (first + i) % len(parent.items)})
        results = step_many(envs, [fuzzed(parent, first + i) for i in range(len(envs))])
        for _, rewards, *_ in results:
            values = set(rewards.values())
            assert len(values) == 1
            assert low <= values.pop() <= high
