# pyright: basic
"""A worker whose model is sharded over several ranks, processes on the same machine (FSDP2).

The worker sends every call to all ranks; they do the same work, and the first one answers. Where a rank ends, the
worker ends the others and itself: it counts as a lost worker. Calls go through pipes that nobody else can open, ranks
find each other through a file in a private folder, and talk over the loopback interface alone: torchrun would open
ports to all machines, without a key.
"""

from __future__ import annotations

import os
import pickle
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, NoReturn

import torch

from ...agents.base import Team
from .host import BUILD, Answer, Host, serve
from .policy import PolicyWorker

_GRACE = 60.0  # seconds; then ranks that do not answer are taken to wait for one that failed


class Ranks:
    """A `PolicyWorker` over `count` ranks; each of its methods is called in all of them.

    Raises:
        ValueError: This machine has fewer GPUs than ranks.
    """

    def __init__(self, agents: Sequence[str], build: Callable[[], Team], count: int) -> None:
        devices = torch.cuda.device_count()
        if 0 < devices < count:
            raise ValueError(
                f"ranks is {count}, and this machine has {devices} GPUs; all ranks of a model are on one machine, "
                f"since those of several would need a key between them, which there is not: set ranks to {devices}"
            )
        self._threads = max(1, torch.get_num_threads() // count)
        self._folder = tempfile.mkdtemp(prefix="llm-dec-pomdp-ranks-")  # of mode 0700
        self._processes: list[subprocess.Popen[bytes]] = []
        self._connections: list[Connection] = []
        for rank in range(count):
            self._start(rank, count)
        self._ask(BUILD, partial(PolicyWorker, list(agents), partial(_spread, build)))

    def _start(self, rank: int, count: int) -> None:
        here, there = Pipe()
        words = [str(there.fileno()), self._folder, str(rank), str(count)]
        loopback = next(name for _, name in socket.if_nameindex() if name in ("lo", "lo0"))
        settings = {
            "GLOO_SOCKET_IFNAME": loopback,
            "NCCL_SOCKET_IFNAME": f"={loopback}",
            "LOCAL_RANK": str(rank),  # which FSDP2 takes for the device
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        }
        self._processes.append(
            subprocess.Popen(
                [sys.executable, "-m", __name__, *words],
                env={**os.environ, **settings},
                pass_fds=[there.fileno()],
                start_new_session=True,
            )
        )
        there.close()
        self._connections.append(here)

    def __getattr__(self, method: str) -> Callable[..., Any]:
        return partial(self._ask, method)

    def _ask(self, method: str, *arguments: Any) -> Any:
        message = pickle.dumps((method, arguments, self._threads, False))
        try:
            for connection in self._connections:
                connection.send_bytes(message)
            answers = self._answers()
        except (EOFError, OSError):
            self._end()
        return next((answer for answer in answers if answer.error), answers[0]).get()

    def _answers(self) -> list[Answer]:
        """Those of all ranks, in their order.

        A rank that fails alone may leave the others waiting for it: then EOFError.
        """
        answers: dict[Any, Answer] = {}
        while left := [connection for connection in self._connections if connection not in answers]:
            failed = next((answer for answer in answers.values() if answer.error), None)
            ready = wait(left, _GRACE if failed else None)
            if failed and not ready:
                sys.stderr.write(failed.trace)
                raise EOFError
            for connection in ready:
                answers[connection] = pickle.loads(connection.recv_bytes())  # pyright: ignore
        return [answers[connection] for connection in self._connections]

    def _end(self) -> NoReturn:
        """End all ranks and this process."""
        for process in self._processes:
            process.kill()
        _leave(self._folder, 1)


def _leave(folder: str, code: int) -> NoReturn:
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(code)


def _spread(build: Callable[[], Team]) -> Team:
    from ...agents.language_model.sharded import sharded

    return sharded(build)


# --- in the ranks -----------------------------------------------------------------------------------------------------


def main() -> None:
    """Answer the calls of the worker in one rank; only the first sends their results."""
    import torch.distributed as dist

    descriptor, folder, rank, count = sys.argv[1:]
    if torch.cuda.is_available():
        torch.cuda.set_device(int(rank))
    dist.init_process_group(
        "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo",
        store=dist.FileStore(  # pyright: ignore[reportPrivateImportUsage]
            str(Path(folder) / "store"), int(count)
        ),
        rank=int(rank),
        world_size=int(count),
    )
    host = Host()

    def answer(*call: Any) -> Answer:
        reply = host.answer(*call)
        return reply if rank == "0" or reply.error else Answer()

    serve(Connection(int(descriptor)), answer, partial(_leave, folder, 0))


if __name__ == "__main__":
    main()
