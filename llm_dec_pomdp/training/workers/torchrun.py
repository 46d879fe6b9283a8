# pyright: basic
"""Models sharded over the processes that torchrun has started, on one machine or several.

All processes run the same command. The process of rank 0 is the driver: it samples, saves, and sends every call to all
ranks. Its own shard of the models is in a child process, so that it can end the run when a rank is lost. The other
ranks answer calls, write nothing, and end with the driver. A rank that is silent for a minute counts as lost.

Calls are pickled. The key of the driver's port is in the store of torchrun, which needs no key. So anyone who can reach
one of these ports can run code in the ranks, as with torchrun itself.
"""

from __future__ import annotations

import functools
import json
import os
import pickle
import secrets
import socket
import sys
import threading
from collections.abc import Callable, Collection, Mapping
from functools import partial
from multiprocessing import AuthenticationError
from multiprocessing.connection import Connection, answer_challenge, deliver_challenge
from typing import Any, NoReturn

import torch
import torch.distributed as dist

from ...agents.base import Team
from ...agents.io.load import load_team
from ...config import ConfigError
from ..checkpoint import differences, versions
from ..loop import TrainingError
from .base import OnMessage, Resources, Worker
from .host import BUILD
from .placed import RemotePolicy
from .policy import PolicyWorker
from .ranks import END, Calls, join_group, serve_rank, spread
from .transport import Transport

_JOINING = 300.0  # seconds for all ranks to connect to the driver
_SILENCE = 60  # seconds without an answer after which a machine counts as lost
_ALIVE = {  # keep-alive options of sockets, if the kernel has them
    "TCP_KEEPIDLE": _SILENCE // 4,
    "TCP_KEEPINTVL": _SILENCE // 4,
    "TCP_KEEPCNT": 3,
    "TCP_USER_TIMEOUT": 1000 * _SILENCE,  # milliseconds; for data that were sent and not acknowledged
}


def world() -> tuple[int, int]:
    """Return the rank of this process and the number of ranks; raise ConfigError if torchrun has not started it."""
    if "TORCHELASTIC_RUN_ID" not in os.environ:
        raise ConfigError(
            "the executor is 'torchrun', but torchrun has not started this process; start it as `torchrun --nnodes 2 "
            "--rdzv-backend c10d --rdzv-endpoint HOST:PORT -m llm_dec_pomdp train ...` on every machine"
        )
    return int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])


def check_ranks(ranks: Collection[int]) -> None:
    """Raise ConfigError unless a model is sharded over all processes, and every other one over all or none of them."""
    count = world()[1]
    if count not in ranks or set(ranks) - {1, count}:
        raise ConfigError(
            f"torchrun has started {count} processes, and the models have ranks {sorted(set(ranks))}; set ranks to "
            f"{count} (--load ranks={count}) for at least one model, and leave it out for models in the driver"
        )


class Torchrun(Transport):
    """Executor that shards models with ranks over all processes of torchrun; other models live in the driver.

    Raises:
        ConfigError: torchrun has not started this process.
    """

    def __init__(self) -> None:
        super().__init__()
        self._calls, self._lock = Calls(), threading.Lock()
        self._calls.start(0)
        self._calls.connections |= joined()
        self.ask(BUILD, _Models)

    def load_team(self, agents: Any, model: str = "builtin:tiny", **options: Any) -> Team:
        """See `Executor`."""
        if options.get("ranks", 1) > 1:
            return super().load_team(agents, model, **options)
        return load_team(agents, model, **{name: v for name, v in options.items() if name not in ("ranks", "gpus")})

    def place(self, agents: Any, build: Callable[[], Team], ranks: int = 1, gpus: float = 1.0) -> RemotePolicy:
        """See `Transport`; always over all processes."""
        name, hosted = f"the ranks of {', '.join(agents)}", partial(PolicyWorker, list(agents), partial(spread, build))
        start = partial(self.start, name, hosted, Resources(gpus=gpus))
        return RemotePolicy(agents, start(), start)

    def start(self, name: str, build: Callable[[], Any], resources: Resources) -> Worker:
        """See `Transport`."""
        return _Model(name, self, self.ask("add", build))

    def share(self, jobs: int) -> NoReturn:
        """Raise ValueError, since this executor has no workers for the runs of a suite."""
        raise ValueError("the executor 'torchrun' has no workers for the runs of a suite; use processes or ray")

    def ask(self, method: str, *arguments: Any) -> Any:
        """Call a method of `_Models` in all ranks.

        Raises:
            TrainingError: A rank was lost, or only some ranks failed.
        """
        with self._lock:
            try:
                return self._calls.ask(method, arguments, torch.get_num_threads())
            except EOFError as error:
                raise TrainingError(
                    f"{error}, so the run stops; the newest checkpoint is kept: see the output of that rank, and "
                    "start all ranks again with train --resume RUN --executor torchrun"
                ) from None

    def __exit__(self, *exc: object) -> None:
        """End all ranks; after an error they exit with an error."""
        if exc[0] is None:
            for connection in self._calls.connections.values():
                connection.send_bytes(pickle.dumps((END, (), 1, False)))
            for connection in self._calls.connections.values():
                connection.poll(_SILENCE)  # until it is closed
        self._calls.end()


class _Model(Worker):
    """Driver side of a model in the ranks; it ends with the executor."""

    def __init__(self, name: str, ranks: Torchrun, number: int) -> None:
        super().__init__(name)
        self._ranks, self._number = ranks, number

    def call(self, method: str, *arguments: Any, on_message: OnMessage | None = None) -> Any:
        """See `Worker`; `on_message` is never called."""
        return self._ranks.ask("ask", self._number, method, *arguments)

    def stop(self) -> None:
        """See `Worker`."""

    def end(self) -> None:
        """See `Worker`."""


# --- in the ranks -----------------------------------------------------------------------------------------------------


class _Models:
    """The shards of all models in a rank."""

    def __init__(self) -> None:
        join_group()
        self._models: list[Any] = []

    def add(self, build: Callable[[], Any]) -> int:
        """Build the shard of a model; return its number."""
        self._models.append(build())
        return len(self._models) - 1

    def ask(self, number: int, method: str, *arguments: Any) -> Any:
        """Call a method of a shard."""
        return getattr(self._models[number], method)(*arguments)


# --- connecting the ranks ---------------------------------------------------------------------------------------------


def take_part() -> None:
    """Connect to the other processes of torchrun; return in rank 0 only, and answer its calls in the others.

    Raises:
        ConfigError: torchrun has not started this process, or the ranks differ in arguments or versions.
        ConnectionError: Some ranks did not connect, or this one cannot reach rank 0.
    """
    rank, _ = world()
    if rank == 0:
        joined()
        return
    try:
        port, key = json.loads(_store().get(_place()))
        reached = socket.create_connection((os.environ["MASTER_ADDR"], port), timeout=_SILENCE)
        reached.settimeout(None)
        connection = _kept_alive(reached)
        answer_challenge(connection, bytes.fromhex(key))
        deliver_challenge(connection, bytes.fromhex(key))
        connection.send_bytes(pickle.dumps((rank, socket.gethostname(), _about())))
    except (RuntimeError, OSError, EOFError, AuthenticationError) as error:  # RuntimeError is raised by the store
        raise ConnectionError(
            f"rank {rank} cannot reach rank 0 at {os.environ['MASTER_ADDR']} ({error}); see the output of rank 0"
        ) from None

    def ended() -> None:
        sys.stderr.write(f"error: rank {rank} ends, since rank 0 has ended or cannot be reached\n")
        os._exit(1)

    serve_rank(connection, ended)


@functools.cache
def joined() -> Mapping[str, Connection]:
    """Return, in rank 0, the connections to all other ranks, by their names in messages."""
    _, count = world()
    key, found = secrets.token_bytes(), dict[int, tuple[str, Any, Connection]]()
    everywhere: Any = {"family": socket.AF_INET6, "dualstack_ipv6": True} if socket.has_dualstack_ipv6() else {}
    with socket.create_server(("", 0), backlog=count, **everywhere) as server:
        server.settimeout(_JOINING)
        _store().set(_place(), json.dumps([server.getsockname()[1], key.hex()]))
        while len(found) < count - 1:
            try:
                connection = _kept_alive(server.accept()[0])
            except TimeoutError:
                raise ConnectionError(
                    f"of {count} ranks only {sorted({0, *found})} connected within {_JOINING:g} s; see the output of "
                    "the others, and start all ranks again"
                ) from None
            try:
                deliver_challenge(connection, key)
                answer_challenge(connection, key)
                rank, host, about = pickle.loads(connection.recv_bytes())
            except (AuthenticationError, EOFError, OSError):
                continue  # another program
            found[rank] = (f"rank {rank} on {host}", about, connection)
    for name, about, _ in found.values():
        if different := differences(_about(), about):
            raise ConfigError(
                f"{name} differs from rank 0 (rank 0 -> {name}): {'; '.join(different)}; run the same command "
                "with the same versions in all ranks"
            )
    return {name: connection for _, (name, _, connection) in sorted(found.items())}


def _about() -> dict[str, Any]:
    """Return the arguments and versions, which must be the same in all ranks."""
    return {"arguments": sys.argv[1:], "versions": versions()}


def _store() -> Any:
    where = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    return dist.TCPStore(*where, is_master=False)  # pyright: ignore[reportPrivateImportUsage]


def _place() -> str:
    return f"llm_dec_pomdp/{os.environ['TORCHELASTIC_RESTART_COUNT']}"


def _kept_alive(connected: socket.socket) -> Connection:
    """Return a connection that fails when the other machine does not answer."""
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _ALIVE.items():
        if option := getattr(socket, name, None):
            connected.setsockopt(socket.IPPROTO_TCP, option, value)
    return Connection(connected.detach())
