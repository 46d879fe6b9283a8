# pyright: basic
"""Models sharded over the processes that torchrun has started, on one machine or several.

All of them run the same command. That of rank 0 is the driver: it plays, saves, and sends every call to all ranks. Its
own part of the models is in a child, so that it can end the run when a rank is lost. The others answer calls, write
nothing, and end with the driver. Who is silent for a minute, as a machine without power, is lost.

Calls are pickled, and the key of the driver's port is in the store of torchrun, which has no key: whoever reaches
either port can run code in the ranks, as with torchrun itself.
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

_JOINING = 300.0  # seconds for all ranks to come to the driver
_SILENCE = 60  # seconds; then a machine is lost
_ALIVE = {  # by the kernel, where it has them
    "TCP_KEEPIDLE": _SILENCE // 4,
    "TCP_KEEPINTVL": _SILENCE // 4,
    "TCP_KEEPCNT": 3,
    "TCP_USER_TIMEOUT": 1000 * _SILENCE,  # of what was sent and not received
}


def world() -> tuple[int, int]:
    """Rank of this process, and how many torchrun has started; raises ConfigError where it has started none."""
    if "TORCHELASTIC_RUN_ID" not in os.environ:
        raise ConfigError(
            "the executor is 'torchrun', and torchrun has not started this process; start it as `torchrun --nnodes 2 "
            "--rdzv-backend c10d --rdzv-endpoint HOST:PORT -m llm_dec_pomdp train ...` on every machine"
        )
    return int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])


def check_ranks(ranks: Collection[int]) -> None:
    """Raise ConfigError unless a model is sharded over all processes, and no model over another number of them."""
    count = world()[1]
    if count not in ranks or set(ranks) - {1, count}:
        raise ConfigError(
            f"torchrun has started {count} processes, and the models have ranks {sorted(set(ranks))}; give ranks = "
            f"{count} (--load ranks={count}) to one or more of them, and no ranks to those that live with the driver"
        )


class Torchrun(Transport):
    """Models with ranks are spread over all processes of torchrun, those without live in the driver.

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
        """Raises ValueError: it has no workers for cells."""
        raise ValueError("the executor 'torchrun' has no workers for the cells of a suite; give processes or ray")

    def ask(self, method: str, *arguments: Any) -> Any:
        """Call a method of `_Models` in all ranks.

        Raises:
            TrainingError: A rank was lost, or failed alone.
        """
        with self._lock:
            try:
                return self._calls.ask(method, arguments, torch.get_num_threads())
            except EOFError as error:
                raise TrainingError(
                    f"{error}, so the run stops; the newest checkpoint is kept: see what that rank has written, and "
                    "start all of them again with train --resume RUN --executor torchrun"
                ) from None

    def __exit__(self, *exc: object) -> None:
        """End all ranks; after an error they end with one."""
        if exc[0] is None:
            for connection in self._calls.connections.values():
                connection.send_bytes(pickle.dumps((END, (), 1, False)))
            for connection in self._calls.connections.values():
                connection.poll(_SILENCE)  # it is closed
        self._calls.end()


class _Model(Worker):
    """One of the models in the ranks, as its driver sees it; it ends with the executor."""

    def __init__(self, name: str, ranks: Torchrun, number: int) -> None:
        super().__init__(name)
        self._ranks, self._number = ranks, number

    def call(self, method: str, *arguments: Any, on_message: OnMessage | None = None) -> Any:
        """See `Worker`; nothing is told while a method runs."""
        return self._ranks.ask("ask", self._number, method, *arguments)

    def stop(self) -> None:
        """See `Worker`."""

    def end(self) -> None:
        """See `Worker`."""


# --- in the ranks -----------------------------------------------------------------------------------------------------


class _Models:
    """What a rank has: its part of every model."""

    def __init__(self) -> None:
        join_group()
        self._models: list[Any] = []

    def add(self, build: Callable[[], Any]) -> int:
        """Build one; returns its number."""
        self._models.append(build())
        return len(self._models) - 1

    def ask(self, number: int, method: str, *arguments: Any) -> Any:
        """Call a method of one."""
        return getattr(self._models[number], method)(*arguments)


# --- how they meet ----------------------------------------------------------------------------------------------------


def take_part() -> None:
    """Meet the other processes of torchrun; returns in rank 0 only, and the others answer its calls to the end.

    Raises:
        ConfigError: torchrun has not started this process, or the ranks differ in arguments or versions.
        ConnectionError: Some of them did not come, or this one does not reach rank 0.
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
    except (RuntimeError, OSError, EOFError, AuthenticationError) as error:  # RuntimeError: of the store
        raise ConnectionError(
            f"rank {rank} does not reach rank 0 at {os.environ['MASTER_ADDR']} ({error}); see what rank 0 has written"
        ) from None

    def ended() -> None:
        sys.stderr.write(f"error: rank {rank} ends, since rank 0 has ended or is out of reach\n")
        os._exit(1)

    serve_rank(connection, ended)


@functools.cache
def joined() -> Mapping[str, Connection]:
    """In rank 0: connections to all other ranks, by what messages call them."""
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
                    f"of {count} ranks {sorted({0, *found})} met within {_JOINING:g} s; see what the others have "
                    "written, and start all of them again"
                ) from None
            try:
                deliver_challenge(connection, key)
                answer_challenge(connection, key)
                rank, host, about = pickle.loads(connection.recv_bytes())
            except (AuthenticationError, EOFError, OSError):
                continue  # a stranger
            found[rank] = (f"rank {rank} on {host}", about, connection)
    for name, about, _ in found.values():
        if different := differences(_about(), about):
            raise ConfigError(
                f"{name} differs from rank 0 (rank 0 -> {name}): {'; '.join(different)}; give all of them the same "
                "command and the same versions"
            )
    return {name: connection for _, (name, _, connection) in sorted(found.items())}


def _about() -> dict[str, Any]:
    """What has to be the same in all ranks."""
    return {"arguments": sys.argv[1:], "versions": versions()}


def _store() -> Any:
    where = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    return dist.TCPStore(*where, is_master=False)  # pyright: ignore[reportPrivateImportUsage]


def _place() -> str:
    return f"llm_dec_pomdp/{os.environ['TORCHELASTIC_RESTART_COUNT']}"


def _kept_alive(connected: socket.socket) -> Connection:
    """A connection that fails when the other machine is silent."""
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _ALIVE.items():
        if option := getattr(socket, name, None):
            connected.setsockopt(socket.IPPROTO_TCP, option, value)
    return Connection(connected.detach())
