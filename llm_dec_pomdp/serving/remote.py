"""`RemoteEnv`: an environment that a server plays, as an environment again.

    env = RemoteEnv("http://127.0.0.1:8000")               # llm-dec-pomdp serve tldr-v0
    observations, infos = env.reset(seed=0)                # the same episode as make("tldr-v0") has

Standard library only. Its own position is a number; what that stands for is on the server.
"""

from __future__ import annotations

import contextlib
import copy
import operator
import os
import threading
import weakref
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NoReturn

from ..envs import Facts, Outcome, TextDecPOMDP
from ..envs.tasks import item_as_json, item_of
from ..http import WireError, bearer, checked_address, post, retried
from ..registries import UnknownNameError
from ..types import Message, TaskItem, Tool
from .codec import MOST_BYTES, Data, from_bytes, to_bytes, to_facts, to_outcome, to_tool

TOKEN = "LLM_DEC_POMDP_TOKEN"  # the name of a variable
_GOODBYE = 2.0  # seconds to tell a server that a session is over


class RemoteEnvError(ConnectionError):
    """The server did not do what it was asked; the message names its address and the reason."""


class _Session:
    """The name of a session on a server, and how to end it."""

    def __init__(self, name: str, url: str, headers: dict[str, str]) -> None:
        self.name, self._url, self._headers = name, url, headers
        self._process = os.getpid()

    def end(self) -> None:
        """Tell the server, once, and not from a forked process; whether it hears does not matter."""
        if self.name and self._process == os.getpid():
            with contextlib.suppress(WireError):
                post(f"{self._url}/close", to_bytes({"session": self.name}), self._headers, _GOODBYE)
        self.name = ""


class _Link:
    """The address of a server and a session there, shared by all copies of an environment in one process.

    An unpickled copy opens a session of its own, and fetches its environment from the session that it was pickled in.
    """

    def __init__(self, url: str, token: str | None, timeout: float, tries: int) -> None:
        self.__setstate__({"url": url, "timeout": timeout, "tries": tries}, token)

    def __getstate__(self) -> dict[str, Any]:
        if self._ending:
            self._ending.detach()  # the copy fetches its environment from this session, which lives until it is idle
        return {"url": self.url, "timeout": self.timeout, "tries": self.tries}

    def __setstate__(self, state: dict[str, Any], token: str | None = None) -> None:
        self.url, self.timeout, self.tries = state["url"], state["timeout"], state["tries"]
        self._token = token or os.environ.get(TOKEN)  # never in a pickle, which may be stored
        self._headers = bearer(self._token)
        self.session: _Session | None = None
        self.left: deque[int] = deque()  # numbers of environments that the server may forget
        self.users: weakref.WeakSet[RemoteEnv] = weakref.WeakSet()
        self._ending: Any = None
        self._lock = threading.Lock()

    def ask(self, name: str, **fields: Any) -> Data:
        """What the server answers to one operation.

        Raises:
            LookupError: It has no such task.
            RemoteEnvError: Anything else that goes wrong.
        """
        body = to_bytes(fields)
        if len(body) > MOST_BYTES:
            raise RemoteEnvError(f"{name!r} would send {len(body)} bytes; a request has at most {MOST_BYTES}")

        def once() -> Data:
            answer = post(f"{self.url}/{name}", body, self._headers, self.timeout)
            try:
                return from_bytes(answer)
            except ValueError as error:
                raise WireError(f"no JSON: {error}", again=False) from None

        try:
            return retried(once, self.tries)
        except WireError as error:
            failure, reason = error, str(error)
        if failure.status == 404 and name == "reset":
            raise (IndexError if "index" in fields else UnknownNameError)(failure.body)
        if failure.status is None:
            raise RemoteEnvError(f"{self.url} gave {reason}; is the server running?")
        raise RemoteEnvError(f"{self.url} refused {name!r}: {failure.body or reason}")

    def open(self) -> Data:
        """Begin a session."""
        answer = self.ask("open")
        self.session = _Session(answer["session"], self.url, self._headers)
        self._ending = weakref.finalize(self, self.session.end)
        return answer

    def call(self, name: str, place: _Place, **fields: Any) -> Data:
        """What the server answers about a place."""
        with self._lock:
            if self.session is None:
                self.open()
        assert self.session is not None
        if place.session != self.session.name:
            adopted = self.ask("adopt", session=self.session.name, of=place.session, place=place.number)
            place.session, place.number = self.session.name, adopted["place"]
        forget = [self.left.popleft() for _ in range(len(self.left))]
        return self.ask(name, session=self.session.name, place=place.number, forget=forget, **fields)

    def end(self) -> None:
        """End the session."""
        if self.session is not None:
            self.session.end()


class _Place:
    """The number of an environment on the server, as long as somebody here may come back to it."""

    def __init__(self, link: _Link, number: int, session: str) -> None:
        self.link, self.number, self.session = link, number, session
        self._process, self._lent = os.getpid(), False

    def __getstate__(self) -> dict[str, Any]:
        self._lent = True  # the copy may still come for it
        return {"link": self.link, "number": self.number, "session": self.session}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _process=os.getpid(), _lent=False)

    def __del__(self) -> None:
        session = self.link.session
        if session is not None and session.name == self.session and self._process == os.getpid() and not self._lent:
            self.link.left.append(self.number)


class RemoteEnv(TextDecPOMDP):
    """An environment that a server plays; see the module.

    Args:
        url: Of a server that `llm-dec-pomdp serve` started.
        token: What the server was started with, where it was; else what LLM_DEC_POMDP_TOKEN holds.
        max_turns: H; else the server's.
        render_mode: None, "ansi" or "human".
        timeout: Seconds until an answer has to have ended.
        tries: How often a request is sent before `RemoteEnvError` is raised, see `http.retried`.

    Raises:
        ValueError: The address cannot be used.
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
            raise ValueError(f"tries is {tries}; a request is sent at least once")
        address = checked_address(url, "http://host:port", f"the token as {TOKEN} (in Python: token)")
        link = _Link(address, token, timeout, tries)
        described = link.open()["description"]
        assert link.session is not None
        self._become(_Place(link, 0, link.session.name), described, max_turns, render_mode)

    def _become(self, place: _Place, described: Data, max_turns: int | None, render_mode: str | None) -> None:
        agents: list[str] = described["possible_agents"]
        super().__init__(len(agents), described["max_turns"] if max_turns is None else max_turns, render_mode)
        self.metadata = {**TextDecPOMDP.metadata, "name": described["facts"]["name"]}
        self.possible_agents = agents
        self.observation_spaces = dict(zip(agents, self.observation_spaces.values(), strict=True))
        self.action_spaces = dict(zip(agents, self.action_spaces.values(), strict=True))
        self._place, self._described, self._hidden_data = place, described, Data()
        self._facts = {described["max_turns"]: to_facts(described["facts"])}  # by max_turns, which they may follow
        self._items: tuple[TaskItem, ...] | None = None
        self._answer = Data()
        place.link.users.add(self)

    def _call(self, name: str, **fields: Any) -> Data:
        return self._place.link.call(name, self._place, **fields)

    def _moved(self, answer: Data) -> Outcome:
        """Move to the place and the hidden state of an answer."""
        outcome = to_outcome(answer["outcome"])
        self._place, self._hidden_data = self._at(answer["place"]), answer["hidden"]
        return outcome

    def _at(self, number: int) -> _Place:
        link = self._place.link
        assert link.session is not None
        return _Place(link, number, link.session.name)

    @property
    def facts(self) -> Facts:
        """The server's; another process plays, so that stepping copies in threads pays."""
        if self.max_turns not in self._facts:
            self._facts[self.max_turns] = to_facts(self._call("facts", max_turns=self.max_turns)["facts"])
        return replace(self._facts[self.max_turns], judges_code=True)

    # --- an episode ----------------------------------------------------------------------------------------------

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, str], dict[str, dict[str, Any]]]:
        """Start an episode, the one that the environment itself would; see `TextDecPOMDP.reset`.

        Raises:
            KeyError, IndexError: There is no such task.
            RemoteEnvError: The server does not answer, or refuses.
        """
        chosen = {name: options[name] for name in ("task_id", "index") if options and name in options}
        if "index" in chosen:
            chosen["index"] = operator.index(chosen["index"])
        seed = None if seed is None else operator.index(seed)
        self._answer = self._call("reset", seed=seed, max_turns=self.max_turns, **chosen)
        return super().reset(seed, options)

    def _choose(self, options: Mapping[str, Any]) -> TaskItem:
        return item_of(self._answer["item"])  # the server has chosen

    def _begin(self, item: TaskItem, seed: int) -> Outcome:
        return self._moved(self._answer)

    def _advance(self, item: TaskItem, actions: Mapping[str, str], seed: int) -> Outcome:
        texts = {agent: actions.get(agent, "") for agent in self.agents}
        return self._moved(self._call("step", texts=texts, max_turns=self.max_turns))

    def _hidden(self) -> Mapping[str, Any]:
        return self._hidden_data

    def snapshot(self) -> Any:
        """The episode as a value for `restore`; the server holds it as long as the snapshot is there."""
        return super().snapshot(), self._place, self._hidden_data

    def restore(self, snapshot: Any) -> None:
        """Go back to a snapshot of this environment or of a fork of it."""
        copied, self._place, self._hidden_data = snapshot
        super().restore(copied)

    def fork(self) -> TextDecPOMDP:
        """An independent copy at the same decision point; the server is not asked."""
        twin: Any = super().fork()
        self._place.link.users.add(twin)
        return twin

    def close(self) -> None:
        """End the session, when all forks are closed or gone too; safe to call any number of times."""
        link = self._place.link
        link.users.discard(self)
        if not link.users:
            link.end()

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._place.link.users.add(self)

    # --- tasks and texts -----------------------------------------------------------------------------------------

    @property
    def items(self) -> tuple[TaskItem, ...]:
        """The server's tasks, references included; fetched once."""
        if self._items is None:
            rows, number = list[TaskItem](), 1
            while len(rows) < number:
                page = self._call("tasks", first=len(rows))
                rows += map(item_of, page["rows"])
                number = page["number"]
            self._items = tuple(rows)
        return self._items

    def with_items(self, items: Sequence[TaskItem]) -> TextDecPOMDP:
        """A copy that plays other tasks: some of the server's, with other references and hidden fields if need be.

        Raises:
            RemoteEnvError: Something else in them is another than the server's.
        """
        answer = self._call("with_tasks", rows=[item_as_json(item) for item in items])
        twin = copy.copy(self)
        twin._place, twin._items = self._at(answer["place"]), tuple(items)
        self._place.link.users.add(twin)
        return twin

    def alone(self) -> TextDecPOMDP | None:
        """The same task for one agent that has all tools itself; None where the server has none."""
        answer = self._call("alone")
        if answer["place"] is None:
            return None
        env = RemoteEnv.__new__(RemoteEnv)
        env._become(self._at(answer["place"]), answer["description"], None, self.render_mode)
        return env

    def choices(self, agent: str, history: Sequence[Message] = ()) -> Sequence[str]:
        """Texts that say all that an agent can do, where these are few and do not depend on its history."""
        return tuple(self._described["choices"][agent])

    def tools(self, agent: str) -> tuple[Tool, ...]:
        """What the agent may call."""
        return tuple(map(to_tool, self._described["tools"][agent]))

    def script(self, name: str) -> NoReturn:
        """Not served."""
        raise ValueError(
            f"scripted teams are of a task's own class, which is at {self._place.link.url} and not here; give the "
            "agents models, or make the environment in this process"
        )
