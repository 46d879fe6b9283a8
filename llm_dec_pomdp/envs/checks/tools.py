"""The check "tools" of `check_env`, for environments whose agents have tools.

hostile calls       about a thousand wrong, broken and malicious calls raise nothing
the machine         no answer holds what stands in a file that calls try to read, and that file stays as it is
forks               calls in a fork do not change what its parent's calls give
another process     the same calls give the same answers there (`elsewhere.fingerprint` plays them)
length              an answer has at most `LONGEST` characters, beside what others said
"""

from __future__ import annotations

import pickle
import random
import tempfile
from pathlib import Path
from typing import Any

from ..base import TextDecPOMDP
from .base import require
from .calls import hostile_calls, plain_calls

LONGEST = 100_000  # characters of what an agent is told
TEXTS = 64  # with 16 calls each
_CANARY = "canary_of_a_file_41d7"


def tools_check(env: TextDecPOMDP, rows: int | None) -> None:
    """Check the points of the module; an environment whose agents have no tools passes."""
    if not any(env.tools(agent) for agent in env.possible_agents):
        return
    with tempfile.TemporaryDirectory() as folder:
        secret = Path(folder) / "secret.txt"
        secret.write_text(_CANARY, encoding="utf-8")
        draw, turns = random.Random(0), 0
        while turns < TEXTS:
            observations, _ = env.reset(seed=turns, options={"index": 0})
            while env.agents and turns < TEXTS:
                texts = {agent: hostile_calls(env.tools(agent), str(secret), draw) for agent in env.agents}
                observations, *_ = env.step(texts)
                turns += 1
                _check_answers(observations, sum(map(len, texts.values())))
        require(
            secret.exists() and secret.read_text(encoding="utf-8") == _CANARY,
            "a call changed a file of this machine; keep what tools change in the state",
        )
    _forks(env)


def _check_answers(observations: dict[str, str], others: int) -> None:
    for agent, text in observations.items():
        require(
            len(text) <= LONGEST + others,  # a protocol shows agents what others said
            f"{agent} is told {len(text)} characters; cut answers to at most {LONGEST}",
        )
        require(
            _CANARY not in text, f"a tool showed {agent} a file of this machine; let tools read nothing but the state"
        )


def _forks(env: TextDecPOMDP) -> None:
    def played(place: TextDecPOMDP, seed: int) -> list[Any]:
        draw, results = random.Random(seed), list[Any]()
        while place.agents:
            results.append(place.step({agent: plain_calls(place.tools(agent), draw) for agent in place.agents}))
        return results

    env.reset(seed=1, options={"index": 0})
    untouched = pickle.loads(pickle.dumps(env))
    played(env.fork(), seed=1)
    require(
        repr(played(env, seed=2)) == repr(played(untouched, seed=2)),
        "calls in a fork change what the calls of its parent give; keep what tools change in the state",
    )
