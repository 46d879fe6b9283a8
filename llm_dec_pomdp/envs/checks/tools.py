"""The conformance check "tools", for environments whose agents have tools.

hostile calls       about a thousand wrong, malformed and malicious calls raise no exception
the machine         calls neither show nor change a file of this machine
forks               calls in a fork do not change the results of its parent's calls
another process     the same calls give the same results there (`processes.fingerprint` plays them)
length              an observation has at most `LONGEST` characters, not counting the actions of teammates
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

LONGEST = 100_000  # characters of an observation
TEXTS = 64  # with 16 calls each
_CANARY = "canary_of_a_file_41d7"


def tools_check(env: TextDecPOMDP, rows: int | None) -> None:
    """Run the checks of this module; an environment whose agents have no tools passes."""
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
            "a call changed a file of this machine; let tools change only the state",
        )
    _forks(env)


def _check_answers(observations: dict[str, str], others: int) -> None:
    for agent, text in observations.items():
        require(
            len(text) <= LONGEST + others,  # a protocol may show agents the actions of teammates
            f"{agent} observes {len(text)} characters; cut the results of tools to at most {LONGEST}",
        )
        require(_CANARY not in text, f"a tool showed {agent} a file of this machine; let tools read only the state")


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
        "calls in a fork change the results of its parent's calls; keep everything that tools change in the state",
    )
