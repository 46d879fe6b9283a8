"""Tools of an MCP server, for the agents of a task.

    from llm_dec_pomdp.integrations.mcp import tools_of

    env = WithTools(make("tldr-v0"), [tools_of("http://127.0.0.1:8000/mcp", stateless=True)])
    env = WithTools(make("tldr-v0"), [tools_of(["python", "server.py"])])        # a program that speaks over its pipes

What a server keeps is not in the hidden state of a task. Unless it is said to be stateless, every episode (with
`private=True` every agent in it) has a session of its own, and an environment whose episode has called it cannot be
forked, kept as a snapshot, or served. Needs `pip install -e '.[mcp]'`.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import itertools
import json
import os
import threading
from collections import OrderedDict
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, TypeVar

from ..envs.tools import Function, Kit
from ..envs.tools.function import of_schema
from ..registries import nearest
from ..visible import whole
from .libraries import library

mcp: Any = library("mcp", "mcp")

MOST_SESSIONS = 256  # with one server; the one that was used longest ago ends first
SECONDS = 30.0  # for which a server is waited for
T = TypeVar("T")


def tools_of(
    server: str | Sequence[str],
    *,
    stateless: bool = False,
    private: bool = False,
    only: Sequence[str] | None = None,
    name: str = "mcp",
    headers: Mapping[str, str] | None = None,
) -> Kit:
    """The tools of an MCP server.

    Args:
        server: Its address, or the command that starts it.
        stateless: No call changes what later calls give, so that forks and snapshots are right.
        private: Each agent has a session of its own; else a team shares one.
        only: Names of the tools that are wanted; all when left out.
        name: Of the kit.
        headers: Of every request to an address, such as {"authorization": "Bearer ..."}.

    Raises:
        ImportError: The extra is not installed.
        ConnectionError: No server answers there.
        ValueError: The server has no tool of a name in `only`, or one whose schema cannot be used.
    """
    there = Server(server if isinstance(server, str) else tuple(server), stateless, tuple((headers or {}).items()))
    listed = {tool.name: tool for tool in there.tools()}
    for wanted in only or ():
        if wanted not in listed:
            raise ValueError(f"{there} has no tool {wanted!r}; {nearest(wanted, listed)}")
    functions = tuple(_function(there, listed[tool]) for tool in only or listed)
    return Kit(name, functions, private=private, copies=stateless)


_COMPOSED = {"$ref", "allOf", "anyOf", "oneOf", "if", "patternProperties"}  # properties may stand elsewhere


def _function(server: Server, tool: Any) -> Function:
    """A tool; a wrong name of an argument is an answer to the agent even where the server would pass over it."""
    schema = dict(tool.input_schema)
    if not schema.keys() & _COMPOSED:
        schema.setdefault("additionalProperties", False)
    try:
        return of_schema(tool.name, tool.description or tool.name, schema, functools.partial(server.call, tool.name))
    except ValueError as error:
        raise ValueError(f"{server}: {error}; leave it out: only=[...] names the tools that are wanted") from error


class Server:
    """A server and its sessions; pickled by its address, so that another process has sessions of its own.

    Args:
        target: Its address or command.
        stateless: Whether one session is enough.
        headers: Of every request.
    """

    def __init__(self, target: str | tuple[str, ...], stateless: bool, headers: tuple[tuple[str, str], ...]) -> None:
        self._target, self._stateless, self._headers = target, stateless, headers
        self._lock, self._numbers, self._process = threading.Lock(), itertools.count(1), os.getpid()
        self._sessions: OrderedDict[int, _Session] = OrderedDict()

    def __reduce__(self) -> tuple[Any, ...]:
        return Server, (self._target, self._stateless, self._headers)

    def __str__(self) -> str:
        named = self._target if isinstance(self._target, str) else " ".join(self._target)
        return f"the MCP server {named}"

    def tools(self) -> list[Any]:
        """What it offers."""
        session = self._session(0)
        try:
            return _await(session.tools())
        finally:
            if not self._stateless:
                self._end(0)

    def call(self, name: str, state: int | None, arguments: Mapping[str, Any]) -> tuple[int | None, str]:
        """What a tool answers; see `tools.Function.run`.

        The state is the number of a session, None before the first call.

        Raises:
            ConnectionError: The server does not answer, or has ended the session.
            ValueError: The tool says that it failed.
        """
        number = 0 if self._stateless else next(self._numbers) if state is None else state
        session = self._session(number, begun=state is not None)
        try:
            sent = json.loads(whole(json.dumps(dict(arguments), ensure_ascii=False)))
            result = _await(session.client.call_tool(name, sent))
        except mcp.MCPError as error:
            if error.code != mcp.types.CONNECTION_CLOSED:
                raise ValueError(str(error)) from error
            self._end(number)
            raise ConnectionError(f"{self} does not answer: {error}") from error
        text = "\n".join(map(_text, result.content))
        if result.is_error:
            raise ValueError(text)
        return (None if self._stateless else number), text

    def _session(self, number: int, begun: bool = False) -> _Session:
        with self._lock:
            if self._process != os.getpid():  # a copy of the process that had them
                self._sessions, self._process = OrderedDict(), os.getpid()
            if number not in self._sessions or self._sessions[number].gone:
                if begun and number:
                    raise ConnectionError(f"{self}: the session of this episode has ended; begin another episode")
                while len(self._sessions) >= MOST_SESSIONS:
                    self._sessions.popitem(last=False)[1].end()
                self._sessions[number] = self._begun()
            self._sessions.move_to_end(number)
            return self._sessions[number]

    def _begun(self) -> _Session:
        try:
            session = _Session(self._target, dict(self._headers))
            _await(session.began())
        except Exception as error:
            raise ConnectionError(
                f"{self} does not answer: {_reason(error)}; start it, or correct the address or command"
            ) from error
        return session

    def _end(self, number: int) -> None:
        with self._lock:
            session = self._sessions.pop(number, None)
        if session is not None:
            session.end()


class _Session:
    """A client, in a task of its own for as long as it is connected."""

    def __init__(self, target: str | tuple[str, ...], headers: dict[str, str]) -> None:
        self._target, self._headers = target, headers
        self._over, self._ready = asyncio.Event(), asyncio.Event()
        self.client: Any = None
        self._task = asyncio.run_coroutine_threadsafe(self._live(), _loop(os.getpid()))

    async def _live(self) -> None:
        async with contextlib.AsyncExitStack() as stack:
            target: Any = self._target
            if not isinstance(target, str):
                target = mcp.StdioServerParameters(command=target[0], args=list(target[1:]))
            elif self._headers:
                http = await stack.enter_async_context(library("httpx2", "mcp").AsyncClient(headers=self._headers))
                target = library("mcp.client.streamable_http", "mcp").streamable_http_client(target, http_client=http)
            self.client = await stack.enter_async_context(mcp.Client(target, read_timeout_seconds=SECONDS))
            self._ready.set()
            await self._over.wait()

    async def began(self) -> None:
        """It is connected; raises what kept it from that."""
        ready, task = asyncio.ensure_future(self._ready.wait()), asyncio.wrap_future(self._task)
        await asyncio.wait((ready, task), timeout=SECONDS, return_when=asyncio.FIRST_COMPLETED)
        ready.cancel()
        if not self._ready.is_set():
            if task.done():
                task.result()
            task.cancel()
            raise TimeoutError(f"nothing came in {SECONDS:.0f} s")

    async def tools(self) -> list[Any]:
        """All pages of the list."""
        page = await self.client.list_tools()
        listed = list(page.tools)
        while page.next_cursor:
            page = await self.client.list_tools(cursor=page.next_cursor)
            listed += page.tools
        return listed

    @property
    def gone(self) -> bool:
        """It broke off."""
        return self._task.done()

    def end(self) -> None:
        """Disconnect, some time soon."""
        _loop(os.getpid()).call_soon_threadsafe(self._over.set)


@functools.cache
def _loop(process: int) -> asyncio.AbstractEventLoop:
    """The loop of all sessions of a process, in a thread."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, daemon=True, name="mcp").start()
    return loop


def _await(what: Coroutine[Any, Any, T]) -> T:
    return asyncio.run_coroutine_threadsafe(what, _loop(os.getpid())).result()


def _reason(error: BaseException) -> str:
    """What went wrong first, out of the groups in which tasks raise."""
    while (inner := getattr(error, "exceptions", None)) or (inner := ([error.__cause__] if error.__cause__ else None)):
        error = inner[0]
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def _text(block: Any) -> str:
    """A part of an answer; what is no text is named."""
    if block.type == "text":
        return block.text
    return json.dumps(f"a part of the type {block.type}, which is no text")
