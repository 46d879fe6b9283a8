"""Whether another process plays the same episode: a part of `check_env`, in a process of its own."""

from __future__ import annotations

import hashlib
import io
import os
import pickle
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from .base import TextDecPOMDP
from .hostile_calls import plain_calls

LEAST_SECONDS = 60.0  # for another process: imports, and this many times as long as the episodes take here
MOST_TIMES = 10.0
CHILD = "LLM_DEC_POMDP_CHECKED_BY"  # environment variable of that process


class CheckFailure(AssertionError):  # noqa: N818  # a failed check is an assertion
    """An environment breaks a law."""


def require(condition: bool, message: str) -> None:
    """Raise CheckFailure unless a condition holds."""
    if not condition:
        raise CheckFailure(message)


def play(env: TextDecPOMDP, options: Mapping[str, Any], say: Callable[[str, int], str]) -> Iterator[Any]:
    """Reset and step to the end; yields the reset result and every step result."""
    yield env.reset(seed=1, options=dict(options))
    turn = 0
    while env.agents:
        yield env.step({agent: say(agent, turn) for agent in env.agents})
        turn += 1


def processes(env: TextDecPOMDP, rows: int | None) -> str | None:
    """Why it cannot be checked; None where it holds."""
    copied = pickle.dumps(env)
    if here := _defined_in_main(copied):
        return (
            f"{' and '.join(here)} of this script or notebook cannot be found by another process; for this law define "
            "the environment in a module of its own"
        )
    started = time.perf_counter()
    expected = fingerprint(env)
    limit = LEAST_SECONDS + MOST_TIMES * (time.perf_counter() - started)
    code, found, error = _in_a_child(pickle.dumps(sys.path) + copied, limit)
    if code:
        last = error.strip().rpartition("\n")[2]
        raise CheckFailure(
            f"a pickled copy cannot be played in another process ({last}); define it in a module of its own"
        )
    require(
        found == expected,
        "with another PYTHONHASHSEED another process plays another episode; let no hash() and no order of a set decide",
    )
    return None


def _defined_in_main(copied: bytes) -> list[str]:
    """The classes and functions of `__main__` that a pickled value needs."""
    names: list[str] = []

    class Finder(pickle.Unpickler):
        def find_class(self, module: str, name: str) -> Any:
            if module == "__main__":
                names.append(name)
            return super().find_class(module, name)

    Finder(io.BytesIO(copied)).load()
    return list(dict.fromkeys(names))


def _in_a_child(pickled: bytes, limit: float) -> tuple[int, str, str]:
    """Exit code, fingerprint and messages of a process that plays a pickled copy.

    Raises:
        CheckFailure: It has not ended within `limit` seconds. It is killed, with all that it has started.
    """
    seed = "4711" if os.environ.get("PYTHONHASHSEED") != "4711" else "1"
    with subprocess.Popen(
        [sys.executable, "-c", _CHILD],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONHASHSEED": seed, CHILD: str(os.getpid())},
        start_new_session=True,
    ) as child:
        try:
            output, error = child.communicate(pickled, timeout=limit)
        except BaseException as stopped:
            os.killpg(child.pid, signal.SIGKILL)
            if not isinstance(stopped, subprocess.TimeoutExpired):
                raise
            raise CheckFailure(
                f"another process has not imported and played a pickled copy within {limit:.0f} seconds; let its "
                "module do nothing but define it, with all else below `if __name__ == '__main__':`"
            ) from None
    return child.returncode, output.decode(), error.decode(errors="replace")


# What modules print when they are imported is kept apart from the answer.
_CHILD = """
import os, pickle, sys
answer = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
sys.path[:] = pickle.load(sys.stdin.buffer)
env = pickle.load(sys.stdin.buffer)
from llm_dec_pomdp.envs.elsewhere import fingerprint
print(fingerprint(env), end="", file=answer, flush=True)
"""


def fingerprint(env: TextDecPOMDP) -> str:
    """A hash of whole episodes in which agents first say poor texts and then the references."""
    env.max_turns = max(env.max_turns, 2 * phases(env))

    def say(agent: str, turn: int) -> str:
        if tools := env.tools(agent):
            return plain_calls(tools, random.Random(turn))
        known = dict(zip(env.task.possible_agents, env.items[0].reference, strict=False))
        return known.get(agent, "") if turn >= phases(env) else f"{agent} says the same few words in turn {turn}"

    played = [list(play(env, options, say)) for options in ({"index": 0}, {}, {})]
    return hashlib.sha256(repr((played, env.state())).encode("utf-8", "backslashreplace")).hexdigest()


def phases(env: TextDecPOMDP) -> int:
    """Turns of an environment per turn of the task inside it."""
    return env.max_turns // env.task.max_turns
