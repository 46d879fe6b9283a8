"""Whether another process plays the same episode: a part of `check_env`, in a fork of a process that is kept."""

from __future__ import annotations

import atexit
import contextlib
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
from multiprocessing.connection import Connection, Pipe, wait
from pathlib import Path
from typing import Any

from ...user_code import summary
from ..base import TextDecPOMDP
from .calls import plain_calls

LEAST_SECONDS = 60.0  # for another process: imports, and this many times as long as the episodes take here
MOST_TIMES = 10.0
CHILD = "LLM_DEC_POMDP_CHECKED_BY"  # environment variable of that process


class CheckFailure(AssertionError):  # noqa: N818  # a failed check is an assertion
    """An environment fails a check."""


def require(condition: bool, message: str) -> None:
    """Raise CheckFailure unless a condition holds."""
    if not condition:
        raise CheckFailure(message)


def raised(error: BaseException) -> str:
    """Return an exception with its place in user code and the actions that were played."""
    actions = [note for note in getattr(error, "__notes__", ()) if " acted " in note]
    return "; ".join([summary(error), *actions])


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
            f"{' and '.join(here)} of this script or notebook cannot be found by another process; for this check "
            "define the environment in a module of its own"
        )
    started = time.perf_counter()
    expected = fingerprint(env)
    limit = LEAST_SECONDS + MOST_TIMES * (time.perf_counter() - started)
    found, error = _in_a_fork(copied, limit)
    if error:
        raise CheckFailure(
            f"a pickled copy cannot be played in another process ({error}); define it in a module of its own"
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


def _in_a_fork(copied: bytes, limit: float) -> tuple[str, str]:
    """Fingerprint and error of a process that plays a pickled copy; one of the two is empty.

    Raises:
        CheckFailure: It has not answered within `limit` seconds. It is killed, with all that it has started.
    """
    seed = "4711" if os.environ.get("PYTHONHASHSEED") != "4711" else "1"
    environment = {**os.environ, "PYTHONHASHSEED": seed, CHILD: str(os.getpid())}
    path = [*map(str, sys.path)]
    process, calls = _idle.pop() if _idle else _started(environment, path)
    try:
        calls.send((environment, Path.cwd(), path, copied))
        if not calls.poll(limit):
            raise CheckFailure(
                f"another process has not imported and played a pickled copy within {limit:.0f} seconds; let its "
                "module do nothing but define it, with all else below `if __name__ == '__main__':`"
            )
        answer = calls.recv()
    except BaseException:
        with process, calls, contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        raise
    _idle.append((process, calls))
    return answer


# Processes that wait for an environment. A fork of this process starts its own.
_idle: list[tuple[subprocess.Popen[bytes], Connection]] = []
os.register_at_fork(after_in_child=_idle.clear)


@atexit.register
def _end() -> None:
    for process, calls in _idle:
        with process:
            calls.close()


def _started(environment: dict[str, str], path: list[str]) -> tuple[subprocess.Popen[bytes], Connection]:
    """A process that has imported this library, and forks for every environment that it is sent."""
    calls, theirs = Pipe()
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-c", _FORKS, str(theirs.fileno()), *path],
            stdin=subprocess.DEVNULL,
            env=environment,
            pass_fds=[theirs.fileno()],
            start_new_session=True,
        )
    return process, calls


_FORKS = """
import sys
handle, *sys.path = sys.argv[1:]
del sys.argv[1:]
from llm_dec_pomdp.envs.checks.processes import forks
forks(int(handle))
"""


def forks(handle: int) -> None:
    """Have a fork of this process play every environment that comes in; returns in the fork, when it has answered.

    When nobody is left to send any, also in the middle of an episode, this process and all that forks have started
    are killed.
    """
    with Connection(handle) as calls:
        while True:
            try:
                environment, folder, path, copied = calls.recv()
            except EOFError:
                break
            answers, answer = Pipe(duplex=False)
            with answers, answer:
                if not (fork := os.fork()):
                    calls.close()
                    os.environ.clear()
                    os.environ.update(environment)
                    os.chdir(folder)
                    sys.path[:] = path
                    answer.send(_played(copied))
                    return
                answer.close()
                if calls in wait([calls, answers]):
                    break
                try:
                    found = answers.recv()
                except EOFError:
                    found = "", "it ended without an answer"
            os.waitpid(fork, 0)
            calls.send(found)
    os.killpg(0, signal.SIGKILL)


def _played(copied: bytes) -> tuple[str, str]:
    """Fingerprint and error of a pickled copy. What modules print when they are imported is seen nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    try:
        return fingerprint(pickle.loads(copied)), ""
    except BaseException as error:
        return "", raised(error)


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
