"""Tools of an MCP server, for the agents of a task.

    from llm_dec_pomdp.integrations.mcp import tools_of

    env = WithTools(make("tldr-v0"), [tools_of("http://127.0.0.1:8000/mcp", stateless=True)])
    env = WithTools(make("tldr-v0"), [tools_of(["python", "server.py"])])        # a program that speaks over its pipes

What a server keeps is not in the hidden state of a task. Unless it is said to be stateless, every episode (with
`private=True` every agent in it) has a session of its own, and an environment whose episode has called it cannot be
forked, kept as a snapshot, or served. Needs `pip install -e '.[mcp]'`.

A server may be a stranger's: its list of tools and each answer have limits of bytes and of seconds, redirects are not
followed, and its schemas are checked by `envs.tools.schemas`, which reads nothing that they refer to.
"""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import functools
import itertools
import json
import logging
import os
import threading
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from contextvars import ContextVar
from encodings import utf_8
from typing import Any, NoReturn, TypeVar

import httpx2

from ..envs.tools import Function, Kit
from ..envs.tools.function import check_unique, of_schema
from ..printable import escape_controls, replace_surrogates
from ..registries import nearest
from .libraries import library

mcp: Any = library("mcp", "mcp")

MOST_SESSIONS = 256  # with one server; the one that was used longest ago ends first
SECONDS = 30.0  # for which a server is waited for
MOST_BYTES = 1 << 22  # of an answer, and of the whole list of tools
MOST_TOOLS, MOST_PAGES = 500, 100  # of the list
_TOO_LONG = "its answer is longer than {} bytes"
T = TypeVar("T")
logging.getLogger("mcp").addHandler(logging.NullHandler())  # what goes wrong is an error here, no line in a terminal


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
        ValueError: The server has no tool of a name in `only`, one whose schema cannot be used, two of one name, or a
            list that is too long.
    """
    there = Server(server if isinstance(server, str) else tuple(server), stateless, tuple((headers or {}).items()))
    offered = there.tools()
    check_unique(tool.name for tool in offered)
    listed = {tool.name: tool for tool in offered}
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
        """Return what it offers; raises ConnectionError or ValueError."""
        session = self._session(0)
        try:
            return _await(session.tools())
        except _ExcessError as error:
            raise ValueError(f"{self} lists {error}; use a server with fewer or shorter tools") from None
        except Exception as error:
            raise ConnectionError(f"{self} gives no list of tools: {session.trouble or _reason(error)}") from error
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
            sent = json.loads(replace_surrogates(json.dumps(dict(arguments), ensure_ascii=False)))
            result = _await(session.client.call_tool(name, sent))
        except TimeoutError:
            raise ConnectionError(f"{self} does not answer within {SECONDS:.0f} s") from None
        except mcp.MCPError as error:
            if error.code != mcp.types.CONNECTION_CLOSED and not session.trouble:
                raise ValueError(escape_controls(str(error))) from error
            self._end(number)
            raise ConnectionError(f"{self} does not answer: {session.trouble or _reason(error)}") from error
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
        session = _Session(self._target, dict(self._headers))
        try:
            _await(session.began(), None)
        except Exception as error:
            reason = session.trouble or _reason(error)
            raise ConnectionError(
                f"{self} does not answer: {reason}; start it, or correct the address or command"
            ) from error
        return session

    def _end(self, number: int) -> None:
        with self._lock:
            session = self._sessions.pop(number, None)
        if session is not None:
            session.end()


class _ExcessError(Exception):
    """A list of tools that is longer than it may be."""


class _Session:
    """A client, in a task of its own for as long as it is connected.

    Attributes:
        trouble: Why this side broke off.
    """

    def __init__(self, target: str | tuple[str, ...], headers: dict[str, str]) -> None:
        self._target, self._headers = target, headers
        self._over, self._ready = asyncio.Event(), asyncio.Event()
        self.client: Any = None
        self.trouble = ""
        self._task = asyncio.run_coroutine_threadsafe(self._live(), _loop(os.getpid()))

    async def _live(self) -> None:
        _current.set(self)
        async with contextlib.AsyncExitStack() as stack:
            target: Any = self._target
            if isinstance(target, str):
                hooks = {"request": [self._refuse_listening], "response": [self._limit]}
                headers = {"Accept-Encoding": "identity", **self._headers}
                http = await stack.enter_async_context(
                    httpx2.AsyncClient(headers=headers, timeout=SECONDS, event_hooks=hooks)
                )
                target = library("mcp.client.streamable_http", "mcp").streamable_http_client(target, http_client=http)
            else:
                target = mcp.StdioServerParameters(command=target[0], args=list(target[1:]), encoding=_Lines.name)
            self.client = await stack.enter_async_context(mcp.Client(target, read_timeout_seconds=SECONDS))
            # By a schema of the server, whose patterns could run for ever; agents receive the text alone.
            self.client.session.validate_tool_result = _nothing
            self._ready.set()
            await self._over.wait()

    async def began(self) -> None:
        """It is connected; raises what kept it from that."""
        ready, task = asyncio.ensure_future(self._ready.wait()), asyncio.wrap_future(self._task)
        task.add_done_callback(lambda task: task.cancelled() or task.exception())  # it is in no log
        await asyncio.wait((ready, task), timeout=SECONDS, return_when=asyncio.FIRST_COMPLETED)
        ready.cancel()
        if not self._ready.is_set():
            if task.done():
                task.result()
            task.cancel()
            raise TimeoutError(f"nothing came in {SECONDS:.0f} s")

    async def _refuse_listening(self, request: httpx2.Request) -> None:
        """Refuse the stream of notifications, which nobody reads and a server can make the client open for ever."""
        if request.method == "GET" and "last-event-id" not in request.headers:
            raise httpx2.UnsupportedProtocol("no notifications are read")

    async def _limit(self, response: httpx2.Response) -> None:
        """Refuse redirects and packed answers, and limit the bytes and the time of all others."""
        if response.has_redirect_location:
            self.stop("it redirects to another address, which is not followed; give the final address")
        if response.headers.get("content-encoding", "identity") != "identity":
            self.stop("its answer is packed, which it was asked not to do")
        response.stream = _Limited(response.stream, self)

    def stop(self, trouble: str) -> NoReturn:
        """Disconnect because of what the server does, from within the loop."""
        self.trouble = trouble
        self._over.set()
        raise ConnectionError(trouble)

    async def tools(self) -> list[Any]:
        """Return all pages of the list; raises _ExcessError where it is too long."""
        listed: list[Any] = []
        size, cursor = 0, None
        for _ in range(MOST_PAGES):
            page = await self.client.list_tools(cursor=cursor)
            listed += page.tools
            size += len(page.model_dump_json())
            if len(listed) > MOST_TOOLS:
                raise _ExcessError(f"more than {MOST_TOOLS} tools")
            if size > MOST_BYTES:
                raise _ExcessError(f"tools of more than {MOST_BYTES} bytes")
            cursor = page.next_cursor
            if not cursor:
                return listed
        raise _ExcessError(f"more than {MOST_PAGES} pages of tools")

    @property
    def gone(self) -> bool:
        """It broke off."""
        return self._task.done()

    def end(self) -> None:
        """Disconnect, some time soon."""
        _loop(os.getpid()).call_soon_threadsafe(self._over.set)


_current: ContextVar[_Session] = ContextVar("the session of a task")


class _Limited(httpx2.AsyncByteStream):
    """The body of an answer, of at most `MOST_BYTES` in `SECONDS`."""

    def __init__(self, stream: Any, session: _Session) -> None:
        self._stream, self._session = stream, session

    async def __aiter__(self) -> AsyncIterator[bytes]:
        received, end = 0, time.monotonic() + SECONDS
        async for part in self._stream:
            received += len(part)
            if received > MOST_BYTES:
                self._session.stop(_TOO_LONG.format(MOST_BYTES))
            if time.monotonic() > end:
                self._session.stop(f"its answer takes longer than {SECONDS:.0f} s")
            yield part

    async def aclose(self) -> None:
        """See `AsyncByteStream`."""
        await self._stream.aclose()


class _Lines(utf_8.IncrementalDecoder):
    """UTF-8 from the pipe of a program, with at most `MOST_BYTES` in a line; the client names decoders as encodings."""

    name = "mcp_lines"
    _bytes = 0  # of the line that has not ended

    def decode(self, input: Any, final: bool = False) -> str:
        """See `codecs.IncrementalDecoder`."""
        before, end, _ = bytes(input).partition(b"\n")
        if self._bytes + len(before) > MOST_BYTES:
            _current.get().stop(_TOO_LONG.format(MOST_BYTES))
        self._bytes = len(input) - input.rfind(b"\n") - 1 if end else self._bytes + len(before)
        return super().decode(input, final)


_CODEC = codecs.CodecInfo(codecs.utf_8_encode, codecs.utf_8_decode, incrementaldecoder=_Lines, name=_Lines.name)
codecs.register(lambda name: _CODEC if name == _Lines.name else None)


async def _nothing(*about: Any) -> None:
    """Do nothing."""


@functools.cache
def _loop(process: int) -> asyncio.AbstractEventLoop:
    """The loop of all sessions of a process, in a thread."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, daemon=True, name="mcp").start()
    return loop


def _await(what: Coroutine[Any, Any, T], seconds: float | None = SECONDS) -> T:
    """Return what a coroutine returns; TimeoutError where that takes longer."""
    return asyncio.run_coroutine_threadsafe(asyncio.wait_for(what, seconds), _loop(os.getpid())).result()


def _reason(error: BaseException) -> str:
    """What went wrong first, out of the groups in which tasks raise."""
    while (inner := getattr(error, "exceptions", None)) or (inner := ([error.__cause__] if error.__cause__ else None)):
        error = inner[0]
    return escape_controls(" ".join(f"{type(error).__name__}: {error}".split()))[:300].rstrip(":")


def _text(block: Any) -> str:
    """A part of an answer; what is no text is named."""
    if block.type == "text":
        return block.text
    return json.dumps(f"a part of the type {block.type}, which is no text")
