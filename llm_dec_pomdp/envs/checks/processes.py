"""The conformance check "processes": another process with another PYTHONHASHSEED plays the same episode."""

from __future__ import annotations

import hashlib
import io
import os
import pickle
import random
import subprocess
import sys
import time
from typing import Any

from ..base import TextDecPOMDP
from .base import CheckFailure, phases, play, raised, require
from .calls import plain_calls

LEAST_SECONDS = 60.0  # time limit of the other process: this, plus MOST_TIMES the time of the same episodes here
MOST_TIMES = 10.0
CHILD = "LLM_DEC_POMDP_CHECKED_BY"  # environment variable of the other process
_PROGRAM = """
import sys
sys.path[:] = sys.argv[1:]
del sys.argv[1:]
from llm_dec_pomdp.envs.checks.processes import answer
answer()
"""


def processes(env: TextDecPOMDP, rows: int | None) -> str | None:
    """Play a pickled copy in another process and compare; return a reason if that is impossible, else None."""
    copied = pickle.dumps(env)
    if here := _defined_in_main(copied):
        return (
            f"{' and '.join(here)} of this script or notebook cannot be imported by another process; define the "
            "environment in a separate module to run this check"
        )
    started = time.perf_counter()
    expected = fingerprint(env)
    limit = LEAST_SECONDS + MOST_TIMES * (time.perf_counter() - started)
    seed = "4711" if os.environ.get("PYTHONHASHSEED") != "4711" else "1"
    try:
        done = subprocess.run(
            [sys.executable, "-c", _PROGRAM, *map(str, sys.path)],
            input=copied,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONHASHSEED": seed, CHILD: str(os.getpid())},
            timeout=limit,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise CheckFailure(
            f"another process did not import and play a pickled copy within {limit:.0f} seconds; let the module only "
            "define the environment, and put all other code below `if __name__ == '__main__':`"
        ) from None
    found, _, error = done.stdout.decode(errors="replace").partition("\n")
    if not found:
        raise CheckFailure(
            f"a pickled copy cannot be played in another process ({error or 'it ended without an answer'}); define the "
            "environment in a separate module"
        )
    require(
        found == expected,
        "a process with another PYTHONHASHSEED plays a different episode; use no hash() and no order of a set",
    )
    return None


def _defined_in_main(copied: bytes) -> list[str]:
    """Return the classes and functions of `__main__` that a pickled value needs."""
    names: list[str] = []

    class Finder(pickle.Unpickler):
        def find_class(self, module: str, name: str) -> Any:
            if module == "__main__":
                names.append(name)
            return super().find_class(module, name)

    Finder(io.BytesIO(copied)).load()
    return list(dict.fromkeys(names))


def answer() -> None:
    """Read a pickled environment from standard input; write its fingerprint, or a newline and the error."""
    with os.fdopen(os.dup(1), "wb") as place:
        os.dup2(2, 1)  # send output of imported modules to stderr, which is discarded
        try:
            place.write(fingerprint(pickle.load(sys.stdin.buffer)).encode())
        except BaseException as error:
            place.write(b"\n" + raised(error).encode(errors="backslashreplace"))


def fingerprint(env: TextDecPOMDP) -> str:
    """Return a hash of whole episodes, with poor actions in the first turn and the references in later turns."""
    env.max_turns = max(env.max_turns, 2 * phases(env))

    def say(agent: str, turn: int) -> str:
        if tools := env.tools(agent):
            return plain_calls(tools, random.Random(turn))
        known = dict(zip(env.task.possible_agents, env.items[0].reference, strict=False))
        return known.get(agent, "") if turn >= phases(env) else f"{agent} says the same few words in turn {turn}"

    played = [list(play(env, options, say)) for options in ({"index": 0}, {}, {})]
    return hashlib.sha256(repr((played, env.state())).encode("utf-8", "backslashreplace")).hexdigest()
