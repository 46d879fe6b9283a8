# pyright: basic
"""A worker whose model is sharded over several ranks (FSDP2), which are processes on the same machine.

The worker sends every call to all ranks. They do the same work, and the first one answers. If a rank ends, the worker
ends the other ranks and itself, and counts as lost. Calls go through private pipes. Ranks find each other through a
file in a private folder, and communicate only over the loopback interface. For several machines see `torchrun`, which
opens ports to all of them.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Generator, Sequence
from functools import partial
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, NoReturn

import torch

from ...agents.base import Team
from .host import BUILD, Answer, Host, serve
from .policy import PolicyWorker

END = "end"  # the last call of a rank: end without an error
_GRACE = 60.0  # seconds to wait for the other ranks after one failed


class Calls:
    """Calls to all ranks at once; the first rank answers.

    Attributes:
        connections: Connections to all ranks in order, by the name of a rank in messages.
        processes: The ranks that were started here.
    """

    def __init__(self) -> None:
        self.connections: dict[str, Connection] = {}
        self.processes: list[subprocess.Popen[bytes]] = []

    def start(self, rank: int, folder: str = "", **settings: str) -> None:
        """Start a rank on this machine with these environment variables; see `main`."""
        here, there = Pipe()
        settings["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
        self.processes.append(
            subprocess.Popen(
                [sys.executable, "-m", __name__, str(there.fileno()), folder],
                env={**os.environ, **settings, "RANK": str(rank)},
                pass_fds=[there.fileno()],
                start_new_session=True,
            )
        )
        there.close()
        self.connections[f"rank {rank}"] = here

    def ask(self, method: str, arguments: Sequence[Any], threads: int) -> Any:
        """Call a method in all ranks; return the result of the first rank, or raise the error of any rank.

        Raises:
            EOFError: A rank has ended, or only some ranks failed, so that the remaining ranks may wait for them.
        """
        message = pickle.dumps((method, arguments, threads, False))
        answers: dict[str, Answer] = {}
        for name, connection in self.connections.items():
            with _heard(name):
                connection.send_bytes(message)
        while left := {c: name for name, c in self.connections.items() if name not in answers}:
            failed = next((name for name, answer in answers.items() if answer.error), None)
            ready = wait(left, _GRACE if failed else None)
            if failed and not ready:
                sys.stderr.write(answers[failed].trace)
                raise EOFError(f"only {failed} failed: {answers[failed].error}")
            for connection in ready:
                with _heard(name := left[connection]):  # pyright: ignore
                    answers[name] = pickle.loads(connection.recv_bytes())  # pyright: ignore
        return next((a for a in answers.values() if a.error), answers[next(iter(self.connections))]).get()

    def end(self) -> None:
        """End the ranks that were started here at once; close the connections of all."""
        for process in self.processes:
            process.kill()
            process.wait()
        for connection in self.connections.values():
            connection.close()


@contextlib.contextmanager
def _heard(name: str) -> Generator[None]:
    try:
        yield
    except (EOFError, OSError) as error:
        raise EOFError(f"{name} was lost ({error or 'it has ended'})") from None


class Ranks:
    """A `PolicyWorker` over `count` ranks on this machine; each method is called in all ranks.

    Raises:
        ValueError: This machine has fewer GPUs than ranks.
    """

    def __init__(self, agents: Sequence[str], build: Callable[[], Team], count: int) -> None:
        devices = torch.cuda.device_count()
        if 0 < devices < count:
            raise ValueError(
                f"ranks is {count}, and this machine has {devices} GPUs; set ranks to {devices}, or start ranks on "
                "several machines with torchrun and the executor 'torchrun'"
            )
        self._threads = max(1, torch.get_num_threads() // count)
        self._folder = tempfile.mkdtemp(prefix="llm-dec-pomdp-ranks-")  # of mode 0700
        self._calls = Calls()
        loopback = next(name for _, name in socket.if_nameindex() if name in ("lo", "lo0"))
        settings = {
            "GLOO_SOCKET_IFNAME": loopback,
            "NCCL_SOCKET_IFNAME": f"={loopback}",
            "WORLD_SIZE": str(count),
        }
        for rank in range(count):
            self._calls.start(rank, self._folder, LOCAL_RANK=str(rank), **settings)
        self._ask(BUILD, partial(PolicyWorker, list(agents), partial(spread, build)))

    def __getattr__(self, method: str) -> Callable[..., Any]:
        return partial(self._ask, method)

    def _ask(self, method: str, *arguments: Any) -> Any:
        """Call a method in all ranks; if one is lost, end all of them and this process."""
        try:
            return self._calls.ask(method, arguments, self._threads)
        except EOFError:
            self._calls.end()
            _leave(self._folder, 1)


def _leave(folder: str, code: int) -> NoReturn:
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(code)


def spread(build: Callable[[], Team]) -> Team:
    """Return the team that `build` loads, with its one policy sharded over all ranks of this process's group."""
    from ...agents.language_model.sharded import sharded

    return sharded(build)


# --- in the ranks -----------------------------------------------------------------------------------------------------


def join_group(store: Any = None) -> None:
    """Join the process group that RANK, WORLD_SIZE and LOCAL_RANK describe; without a store, by torchrun's."""
    import torch.distributed as dist

    rank, count = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
    dist.init_process_group(backend, store=store, rank=rank, world_size=count)


def serve_rank(connection: Connection, at_end: Callable[[], object]) -> NoReturn:
    """Answer calls in one rank, until `END`; only the first rank sends their results."""
    host, first = Host(), os.environ["RANK"] == "0"

    def answer(method: str, *call: Any) -> Answer:
        if method == END:
            os._exit(0)
        reply = host.answer(method, *call)
        return reply if first or reply.error else Answer()

    serve(connection, answer, at_end)


def main() -> None:
    """Run a rank that another process has started; ranks of one machine meet in a private folder."""
    import torch.distributed as dist

    descriptor, folder = sys.argv[1:]
    if folder:
        path, count = str(Path(folder) / "store"), int(os.environ["WORLD_SIZE"])
        join_group(dist.FileStore(path, count))  # pyright: ignore[reportPrivateImportUsage]
    serve_rank(Connection(int(descriptor)), partial(_leave, folder, 0))


if __name__ == "__main__":
    main()
