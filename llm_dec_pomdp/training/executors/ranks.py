# pyright: basic
"""A worker whose model is spread over several ranks, which torchrun starts beside it on its machine (FSDP2).

The worker passes on what it is asked to the first rank, which tells the others; all of them do the same, and the first
one answers. Where a rank ends, torchrun ends the others, and the worker ends too: it is a lost one, like any other.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import queue
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
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path
from typing import Any

import torch

from ...agents.base import Team
from .worker import BUILD, Answer, AnsweringWorker

_IDLE = timedelta(days=30)  # ranks wait while others play, without a limit
_GRACE = timedelta(seconds=60)  # until ranks that do not answer count as waiting for one that failed
_KEY = "LLM_DEC_POMDP_RANKS"


class Ranks:
    """A `PolicyWorker` that is several; each of its methods is asked of all ranks.

    Args:
        agents: See `PolicyWorker`.
        build: See `PolicyWorker`.
        count: Of ranks.
    """

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
        """In a thread: without ranks there is nothing left to do."""
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
    """In each rank: answer what the worker asks the first one."""
    import torch.distributed as dist

    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo")
    orders: Any = dist.new_group(backend="gloo", timeout=_IDLE)
    first = dist.get_rank() == 0
    connection = Client(sys.argv[1], family="AF_UNIX", authkey=os.environ.pop(_KEY).encode()) if first else None
    messages: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    if connection is not None:
        threading.Thread(target=_listen, args=[connection, messages], daemon=True).start()
    worker, number = AnsweringWorker(), 0
    while True:
        try:
            message: Any = [messages.get() if first else None]
            dist.broadcast_object_list(message, group=orders)
        except RuntimeError:  # the first one has ended
            os._exit(0)
        answer = _agreed(worker.answer(*pickle.loads(message[0])), number)
        number += 1
        if connection is not None:
            with contextlib.suppress(OSError):  # without a worker `_listen` ends the process
                connection.send_bytes(pickle.dumps(answer))


def _listen(connection: Connection, messages: queue.SimpleQueue[bytes]) -> None:
    """Take what the worker sends, also while something is computed; without it there is nothing left to do."""
    while True:
        try:
            messages.put(connection.recv_bytes())
        except (EOFError, OSError):
            os._exit(0)


def _agreed(answer: Answer, number: int) -> Answer:
    """The own answer, or in the first rank the error of another one.

    A rank that failed alone may have left the others waiting for it: then it ends, and all of them with it.
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
