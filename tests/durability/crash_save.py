"""Saves a checkpoint again and again, each time killing itself one system call later. Run by test_checkpoints.py.

    python tests/durability/crash_save.py FOLDER

FOLDER/run-N is left as the N-th kill left it: step 1 was saved before, step 2 was being saved. Prints how many.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from models import softmax_team

from llm_dec_pomdp.training.checkpoint import Checkpoints

CONFIG = {"seed": 0}


def save(folder: Path, step: int) -> None:
    """A team whose weights tell the step."""
    team = softmax_team(logits=[float(step)] * 4)
    moments = {0: {"exp_avg": team.trainable[0].state_dict()["logits"] * 2}}
    Checkpoints(folder, CONFIG).save(step, team, {"optimizers": [{"state": moments}]}, {"step": step})


def dying(function: Callable[..., Any], left: list[int]) -> Callable[..., Any]:
    """The function, which kills the process instead of returning for the last time; half of the bytes get written."""

    def call(*args: Any, **kwargs: Any) -> Any:
        left[0] -= 1
        if left[0] < 0:
            if function.__name__ == "write":
                function(args[0], bytes(args[1])[: len(args[1]) // 2])
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*args, **kwargs)

    return call


def durable_already(handle: int) -> None:
    """In the place of fsync, which is slow and matters to a loss of power alone: what was written survives a kill."""


def killed_after(calls: int, folder: Path) -> bool:
    """Save step 2 in a child that dies at system call number `calls`; False when it came to its end."""
    pid = os.fork()
    if pid == 0:
        left = [calls]
        os.fsync = durable_already
        for name in ("write", "fsync", "rename", "mkdir", "rmdir", "unlink"):
            setattr(os, name, dying(getattr(os, name), left))
        save(folder, 2)
        os._exit(0)
    return os.WIFSIGNALED(os.waitpid(pid, 0)[1])


def main() -> None:
    """One folder per system call of a save."""
    parent = Path(sys.argv[1])
    for old in (0, 1):
        save(parent / "before", old)
    number = 0
    while True:
        folder = parent / f"run-{number}"
        shutil.copytree(parent / "before", folder)
        if not killed_after(number, folder):
            break
        number += 1
    shutil.rmtree(folder)
    sys.stdout.write(str(number))


if __name__ == "__main__":
    main()
