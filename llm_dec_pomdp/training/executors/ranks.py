# pyright: basic
"""A worker whose model is sharded over several ranks, which torchrun starts on the same machine (FSDP2).

The worker passes every call to the first rank, which broadcasts it; all ranks do the same work, and the first one
answers. Where a rank ends, torchrun ends the others, and the worker ends too: it counts as a lost worker.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import secrets
import signal
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from multiprocessing.connection import Client, Listener
from pathlib import Path
from typing import Any

import torch

from ...agents.base import Team
from .worker import BUILD, Answer, AnsweringWorker, messages_of

_IDLE = timedelta(days=30)  # in effect no limit: ranks wait while others play
_GRACE = timedelta(seconds=60)  # then ranks that do not answer are taken to wait for one that failed
_KEY = "LLM_DEC_POMDP_RANKS"


class Ranks:
    """A `PolicyWorker` over `count` ranks; each of its methods is called in all of them."""

    def __init__(self, agents: Sequence[str], build: Callable[[], Team], count: int) -> None:
        self._threads = max(1, torch.get_num_threads() // count)
        key = secrets.token_hex(16)
        with tempfile.TemporaryDirectory() as folder:
            listener = Listener(str(Path(folder) / "socket"), family="AF_UNIX", authkey=key.encode())
            command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(count)]
            given = [*command, "-m", __name__, listener.address]
            paths = os.pathsep.join(path for path in sys.path if path)
            self._process = subprocess.Popen(
                given, env={**os.environ, _KEY: key, "PYTHONPATH": paths}, start_new_session=True
            )
            threading.Thread(target=self._watch, daemon=True).start()
            self._connection = listener.accept()
            listener.close()
        self._ask(BUILD, list(agents), partial(_spread, build))

    def _watch(self) -> None:
        """End this process with its ranks."""
        self._process.wait()
        os._exit(1)

    def __getattr__(self, method: str) -> Callable[..., Any]:
        return partial(self._ask, method)

    def _ask(self, method: str, *given: Any) -> Any:
        try:
            self._connection.send_bytes(pickle.dumps((method, given, self._threads)))
            answer: Answer = pickle.loads(self._connection.recv_bytes())
        except (EOFError, OSError):
            self._process.wait()
            os._exit(1)
        return answer.get()


def _spread(build: Callable[[], Team]) -> Team:
    from ...agents.transformers.sharded import sharded

    return sharded(build)


# --- in the ranks -----------------------------------------------------------------------------------------------------


def main() -> None:
    """Answer, in each rank, the calls that the worker sends to the first one."""
    import torch.distributed as dist

    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo")
    orders: Any = dist.new_group(backend="gloo", timeout=_IDLE)
    first = dist.get_rank() == 0
    connection = Client(sys.argv[1], family="AF_UNIX", authkey=os.environ.pop(_KEY).encode()) if first else None
    messages = messages_of(connection, exit_code=0) if connection is not None else None
    worker, number = AnsweringWorker(), 0
    while True:
        try:
            message: Any = [messages.get() if messages is not None else None]
            dist.broadcast_object_list(message, group=orders)
        except RuntimeError:  # the first rank has ended
            os._exit(0)
        answer = _agreed(worker.answer(*pickle.loads(message[0])), number)
        number += 1
        if connection is not None:
            with contextlib.suppress(OSError):  # without a worker the process ends
                connection.send_bytes(pickle.dumps(answer))


def _agreed(answer: Answer, number: int) -> Answer:
    """This rank's answer; in the first rank, the error of another rank where there is one.

    A rank that fails alone may leave the others waiting for it: then it ends, and all of them with it.
    """
    import torch.distributed as dist

    store: Any = dist.distributed_c10d._get_default_store()
    own, keys = dist.get_rank(), [f"{number}/{rank}" for rank in range(dist.get_world_size())]
    store.set(keys[own], pickle.dumps(answer if answer.error else Answer()))
    if answer.error or own == 0:
        try:
            store.wait(keys, _GRACE if answer.error else _IDLE)
        except RuntimeError:
            traceback.print_exception(answer.error)
            os._exit(1)
    if own == 0 and not answer.error:
        errors = [other for other in (pickle.loads(store.get(key)) for key in keys) if other.error]
        return errors[0] if errors else answer
    return answer


if __name__ == "__main__":
    main()
