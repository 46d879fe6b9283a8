"""`RemoteEnv`: an environment on a server, used like a local one.

    env = RemoteEnv("http://127.0.0.1:8000")               # llm-dec-pomdp serve tldr-v0
    observations, infos = env.reset(seed=0)                # the same episode as make("tldr-v0")

The server stores the states of episodes by number. A message plays a fork of one of them. So forks, snapshots and
pickles of a `RemoteEnv` are numbers, and a message whose answer was lost can be sent again.
"""

from __future__ import annotations

import contextlib
import copy
import importlib.util
import operator
import os
import secrets
import weakref
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn
from urllib.parse import urlsplit

from ..envs import Facts, Outcome, TextDecPOMDP
from ..envs.tasks import item_of
from ..http import WireError, bearer, checked_address, retried
from ..printable import escape_controls
from ..registries import UnknownNameError
from ..types import Message, TaskItem, Tool
from .codec import MOST_BYTES, Data, from_text, to_facts, to_outcome, to_text, to_tool

if TYPE_CHECKING:
    from websockets.sync.client import ClientConnection

TOKEN = "LLM_DEC_POMDP_TOKEN"  # name of an environment variable
_LOCAL = ("127.0.0.1", "localhost", "::1")
_CLOSE = 1.0  # seconds for closing a connection


class RemoteEnvError(ConnectionError):
    """The server does not answer, or refuses a request; the message has the address and the reason."""


class _Client:
    """A session of a server, shared by all copies of an environment, and this process's connections to it.

    A pickle has the name of the session, but not the token, since pickles may be stored.
    """

    def __init__(self, url: str, token: str | None, timeout: float, tries: int, session: str) -> None:
        self.url, self.timeout, self.tries, self.session = url, timeout, tries, session
        self._headers = bearer(token or os.environ.get(TOKEN))
        self._process = os.getpid()
        self._unused: list[ClientConnection] = []  # one for each thread that sends requests at the same time
        self.left: deque[int] = deque()  # numbers of states that the server may drop
        weakref.finalize(self, _close, self._unused, self._process)

    def __reduce__(self) -> tuple[Any, ...]:
        return _Client, (self.url, None, self.timeout, self.tries, self.session)

    def ask(self, kind: str, **data: Any) -> Data:
        """Return the data of the server's answer to a message.

        Raises:
            LookupError: The server has no such task.
            RemoteEnvError: Any other failure.
        """
        forget = list[int]()
        with contextlib.suppress(IndexError):  # it is empty, or another thread took the last one
            while True:
                forget.append(self.left.popleft())
        message = to_text({"type": kind, "data": {**data, "forget": forget}})
        if len(message) > MOST_BYTES:
            raise RemoteEnvError(f"{kind!r} would send {len(message)} bytes; a message has at most {MOST_BYTES}")
        try:
            answer = retried(lambda: self._exchange(message), self.tries)
        except WireError as error:
            hint = "" if error.status else "; is the server running?"
            raise RemoteEnvError(f"{self.url} gave {escape_controls(str(error))}{hint}") from None
        if answer["type"] != "error":
            return answer["data"]
        reason, code = escape_controls(answer["data"]["message"]), answer["data"]["code"]
        if code == "NO_SUCH_TASK" and kind == "reset":
            raise IndexError(reason) if "index" in data else UnknownNameError(reason)
        raise RemoteEnvError(f"{self.url} refused {kind!r}: {reason}")

    def _exchange(self, message: str) -> Data:
        """Send a message and return the answer; a connection that fails is closed."""
        from websockets.exceptions import WebSocketException

        connection = None
        try:
            connection = self._connection()
            connection.send(message)
            answer = from_text(connection.recv(self.timeout))
        except (WebSocketException, OSError, ValueError) as error:  # TimeoutError included
            if connection is not None:
                connection.close_socket()
            raise WireError(f"{type(error).__name__}: {error}") from error
        self._unused.append(connection)
        return answer

    def _connection(self) -> ClientConnection:
        """Return an unused connection, or open one."""
        from websockets.exceptions import InvalidStatus
        from websockets.sync.client import connect

        if self._process != os.getpid():  # a forked process must not use connections of its parent
            self._process, self._unused = os.getpid(), []
            weakref.finalize(self, _close, self._unused, self._process)
        with contextlib.suppress(IndexError):  # no unused connection
            return self._unused.pop()
        address = self.url.replace("http", "ws", 1)
        try:
            return connect(
                f"{address}/ws?session_id={self.session}",
                additional_headers=self._headers,
                proxy=None if urlsplit(self.url).hostname in _LOCAL else True,
                compression=None,
                open_timeout=self.timeout,
                close_timeout=_CLOSE,
                max_size=MOST_BYTES,
            ).__enter__()
        except InvalidStatus as error:
            status, reason = error.response.status_code, (error.response.body or b"").decode(errors="replace")
            raise WireError(f"HTTP {status}: {reason:.300}", again=status >= 500, status=status) from None

    def close(self) -> None:
        """Close the connections that are not in use."""
        _close(self._unused, self._process)


def _close(connections: list[ClientConnection], process: int) -> None:
    while connections and process == os.getpid():
        connections.pop().close()


class _State:
    """The number of a state on the server. The server drops the state when no object of this process refers to it."""

    def __init__(self, client: _Client, number: int) -> None:
        self.client, self.number = client, number
        self._process: int | None = os.getpid()

    def __getstate__(self) -> dict[str, Any]:
        self._process = None  # a process does not know when the other one no longer needs the state
        return vars(self)

    def __del__(self) -> None:
        if self._process == os.getpid():
            self.client.left.append(self.number)


class RemoteEnv(TextDecPOMDP):
    """An environment on a server; see the module docstring. Needs the extra "serve".

    Args:
        url: Address of a server that `llm-dec-pomdp serve` started.
        token: The server's token; default: the variable LLM_DEC_POMDP_TOKEN.
        max_turns: H; default: the server's.
        render_mode: None, "ansi" or "human".
        timeout: Seconds until an answer must be complete.
        tries: Number of times that a message is sent before `RemoteEnvError` is raised, see `http.retried`.

    Raises:
        ImportError: The extra is not installed.
        ValueError: The address is invalid.
        RemoteEnvError: The server does not answer, or refuses.
    """

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        max_turns: int | None = None,
        render_mode: str | None = None,
        timeout: float = 60.0,
        tries: int = 3,
    ) -> None:
        if tries < 1:
            raise ValueError(f"tries is {tries}; a message is sent at least once")
        if importlib.util.find_spec("websockets") is None:
            raise ImportError("RemoteEnv needs websockets; install it: pip install -e '.[serve]' (in the clone)")
        address = checked_address(url, "http://host:port", f"the token as {TOKEN} (in Python: token)")
        client = _Client(address, token, timeout, tries, secrets.token_urlsafe(24))
        self._become(client, client.ask("fork", fork=0), max_turns, render_mode)

    def _become(self, client: _Client, answer: Data, max_turns: int | None, render_mode: str | None) -> None:
        """Adopt the state and the description of a fork."""
        described = answer["description"]
        agents: list[str] = described["possible_agents"]
        super().__init__(len(agents), described["max_turns"] if max_turns is None else max_turns, render_mode)
        self.metadata = {**TextDecPOMDP.metadata, "name": described["facts"]["name"]}
        self.possible_agents = agents
        self.observation_spaces = dict(zip(agents, self.observation_spaces.values(), strict=True))
        self.action_spaces = dict(zip(agents, self.action_spaces.values(), strict=True))
        self._client, self._state_there = client, _State(client, answer["fork"])
        self._described, self._hidden_data = described, Data()
        self._facts = {described["max_turns"]: to_facts(described["facts"])}  # by max_turns, on which they may depend
        self._items: tuple[TaskItem, ...] | None = None
        self._answer = Data()

    def _ask(self, kind: str, **data: Any) -> Data:
        """Return the answer to a message about the current state."""
        return self._client.ask(kind, fork=self._state_there.number, **data)

    def _move(self, fork: Data) -> Outcome:
        """Move to the state of an answer and return its outcome."""
        self._state_there, self._hidden_data = _State(self._client, fork["number"]), fork["hidden"]
        return to_outcome(fork["outcome"])

    @property
    def facts(self) -> Facts:
        """The facts of the server's environment; it runs in another process, so threads can step copies in parallel."""
        if self.max_turns not in self._facts:
            answer = self._ask("fork", max_turns=self.max_turns)
            _State(self._client, answer["fork"])  # the server may drop it
            self._facts[self.max_turns] = to_facts(answer["description"]["facts"])
        return replace(self._facts[self.max_turns], judges_code=True)

    # --- an episode ----------------------------------------------------------------------------------------------

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, str], dict[str, dict[str, Any]]]:
        """Start the same episode as a local environment; see `TextDecPOMDP.reset`.

        Raises:
            KeyError, IndexError: There is no such task.
            RemoteEnvError: The server does not answer, or refuses.
        """
        chosen = {name: options[name] for name in ("task_id", "index") if options and name in options}
        if "index" in chosen:
            chosen["index"] = operator.index(chosen["index"])
        seed = None if seed is None else operator.index(seed)
        self._answer = self._ask("reset", seed=seed, max_turns=self.max_turns, **chosen)["fork"]
        return super().reset(seed, options)

    def _choose(self, options: Mapping[str, Any]) -> TaskItem:
        return item_of(self._answer["item"])  # the server has chosen the task

    def _start(self, item: TaskItem, seed: int) -> Outcome:
        return self._move(self._answer)

    def _advance(self, item: TaskItem, actions: Mapping[str, str], seed: int) -> Outcome:
        texts = {agent: actions.get(agent, "") for agent in self.agents}
        return self._move(self._ask("step", texts=texts, max_turns=self.max_turns)["fork"])

    def _hidden(self) -> Mapping[str, Any]:
        return self._hidden_data

    def snapshot(self) -> Any:
        """Return the episode as a value for `restore`; the server stores its state as long as the value exists."""
        return super().snapshot(), self._state_there, self._hidden_data

    def restore(self, snapshot: Any) -> None:
        """Return to a snapshot of this environment or of a fork of it."""
        copied, self._state_there, self._hidden_data = snapshot
        super().restore(copied)

    def close(self) -> None:
        """Close the connections; a later request of this environment or of a fork opens another."""
        self._client.close()

    # --- tasks and texts -----------------------------------------------------------------------------------------

    @property
    def items(self) -> tuple[TaskItem, ...]:
        """The server's tasks with their references, which are requested once."""
        if self._items is None:
            rows, number = list[TaskItem](), 1
            while len(rows) < number:
                page = self._ask("tasks", first=len(rows))
                rows += map(item_of, page["rows"])
                number = page["number"]
            self._items = tuple(rows)
        return self._items

    def with_items(self, items: Sequence[TaskItem]) -> TextDecPOMDP:
        """Return a copy with a selection of the tasks, whose references and hidden fields may be changed.

        Raises:
            RemoteEnvError: A task is not one of the server's tasks, or another part of it was changed.
        """
        known = {item.id: item for item in self.items}
        rows: list[Data] = []
        for item in items:
            of_server = known.get(item.id, item)
            fields = {name: text for name, text in item.fields.items() if text != of_server.fields.get(name)}
            if replace(item, reference=of_server.reference, fields=of_server.fields) != of_server:
                raise RemoteEnvError(f"the prompt or split of task {item.id!r} is not the one of {self._client.url}")
            reference = None if item.reference == of_server.reference else list(item.reference)
            rows.append({"id": item.id, "reference": reference, "fields": fields})
        twin = copy.copy(self)
        twin._state_there = _State(self._client, self._ask("fork", tasks=rows)["fork"])
        twin._items = tuple(items)
        return twin

    def single_agent(self) -> TextDecPOMDP | None:
        """Return the environment for a single agent with all tools; None if the server has none."""
        answer = self._ask("fork", single_agent=True)
        if answer["fork"] is None:
            return None
        env = RemoteEnv.__new__(RemoteEnv)
        env._become(self._client, answer, None, self.render_mode)
        return env

    def choices(self, agent: str, history: Sequence[Message] = ()) -> Sequence[str]:
        """Return a text for each action of an agent, if these are few and do not depend on its history."""
        return tuple(self._described["choices"][agent])

    def tools(self, agent: str) -> tuple[Tool, ...]:
        """Return the tools of an agent."""
        return tuple(map(to_tool, self._described["tools"][agent]))

    def script(self, name: str) -> NoReturn:
        """Raise ValueError: scripted teams are not served."""
        raise ValueError(
            f"scripted teams belong to the class of a task, which is at {self._client.url}; give the agents models, or "
            "make the environment in this process"
        )
