"""Tools of an MCP server, for the agents of a task.

    from llm_dec_pomdp.integrations.mcp import tools_of

    env = WithTools(make("tldr-v0"), [tools_of("http://127.0.0.1:8000/mcp", stateless=True)])
    env = WithTools(make("tldr-v0"), [tools_of(["python", "server.py"])])        # a program that is called over pipes

The state of a server is not part of the hidden state of a task. Unless `stateless=True`, every episode has its own
session (with `private=True`, every agent of every episode). After a call, the environment cannot be forked, stored as a
snapshot, or served. Needs `pip install -e '.[mcp]'`.

Servers are not trusted: the list of tools and each answer are limited in bytes and seconds, redirects are refused, and
schemas are checked by `envs.tools.schemas`, which never loads the references in them.
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

MOST_SESSIONS = 256  # with one server; the least recently used session is closed first
SECONDS = 30.0  # time limit of an answer
MOST_BYTES = 1 << 22  # limit of an answer, and of the whole list of tools
MOST_TOOLS, MOST_PAGES = 500, 100  # limits of the list of tools
_TOO_LONG = "its answer is longer than {} bytes"
T = TypeVar("T")
logging.getLogger("mcp").addHandler(logging.NullHandler())  # errors are raised here, so its log is not needed


def tools_of(
    server: str | Sequence[str],
    *,
    stateless: bool = False,
    private: bool = False,
    only: Sequence[str] | None = None,
    name: str = "mcp",
    headers: Mapping[str, str] | None = None,
) -> Kit:
    """Return the tools of an MCP server.

    Args:
        server: Its address, or the command that starts it.
        stateless: True: no call changes the results of later calls, so forks and snapshots are possible.
        private: True: each agent has its own session. False: a team shares one.
        only: Names of the tools to use; None: all.
        name: Name of the kit.
        headers: Headers of every request to an address, such as {"authorization": "Bearer ..."}.

    Raises:
        ImportError: The extra is not installed.
        ConnectionError: No server answers there.
        ValueError: The server has no tool with a name in `only`, an unusable schema, two tools with one name, or a
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


_COMPOSED = {"$ref", "allOf", "anyOf", "oneOf", "if", "patternProperties"}  # then properties may be declared elsewhere


def _function(server: Server, tool: Any) -> Function:
    """Return a tool; unknown arguments are an error for the agent, even if the server would ignore them."""
    schema = dict(tool.input_schema)
    if not schema.keys() & _COMPOSED:
        schema.setdefault("additionalProperties", False)
    try:
        return of_schema(tool.name, tool.description or tool.name, schema, functools.partial(server.call, tool.name))
    except ValueError as error:
        raise ValueError(f"{server}: {error}; leave the tool out with only=[...], the names of the others") from error


class Server:
    """A server and its sessions. It is pickled by its address, so another process opens its own sessions.

    Args:
        target: Its address or command.
        stateless: Whether one session is enough for all episodes.
        headers: Headers of every request.
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
        """Return its tools; raise ConnectionError if it does not answer, or ValueError if there are too many."""
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
        """Call a tool; return the new state and the result, see `tools.Function.run`.

        The state is the number of a session, None before the first call.

        Raises:
            ConnectionError: The server does not answer, or has ended the session.
            ValueError: The tool reports an error.
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
            if self._process != os.getpid():  # after a fork of the process, its sessions are unusable here
                self._sessions, self._process = OrderedDict(), os.getpid()
            if number not in self._sessions or self._sessions[number].gone:
                if begun and number:
                    raise ConnectionError(f"{self}: the session of this episode has ended; start another episode")
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
    """The list of tools exceeds a limit."""


class _Session:
    """A client in a separate asyncio task, which runs as long as it is connected.

    Attributes:
        trouble: Reason why this client disconnected; "" if it did not.
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
            # No validation by the server's schema, whose patterns could run forever; agents receive only the text.
            self.client.session.validate_tool_result = _nothing
            self._ready.set()
            await self._over.wait()

    async def began(self) -> None:
        """Wait until it is connected; raise the error if it cannot connect."""
        ready, task = asyncio.ensure_future(self._ready.wait()), asyncio.wrap_future(self._task)
        task.add_done_callback(lambda task: task.cancelled() or task.exception())  # marks the error as seen
        await asyncio.wait((ready, task), timeout=SECONDS, return_when=asyncio.FIRST_COMPLETED)
        ready.cancel()
        if not self._ready.is_set():
            if task.done():
                task.result()
            task.cancel()
            raise TimeoutError(f"no answer within {SECONDS:.0f} s")

    async def _refuse_listening(self, request: httpx2.Request) -> None:
        """Refuse the stream of notifications, which is not read and which a server could keep open forever."""
        if request.method == "GET" and "last-event-id" not in request.headers:
            raise httpx2.UnsupportedProtocol("no notifications are read")

    async def _limit(self, response: httpx2.Response) -> None:
        """Refuse redirects and compressed answers, and limit the bytes and the time of other answers."""
        if response.has_redirect_location:
            self.stop("it redirects to another address, which is not followed; give the final address")
        if response.headers.get("content-encoding", "identity") != "identity":
            self.stop("its answer is compressed, although the request does not allow it")
        response.stream = _Limited(response.stream, self)

    def stop(self, trouble: str) -> NoReturn:
        """Disconnect because of the server's behaviour; call this within the event loop.

        Args:
            trouble: The behaviour of the server, as the text of the error.

        Raises:
            ConnectionError: Always, with `trouble`.
        """
        self.trouble = trouble
        self._over.set()
        raise ConnectionError(trouble)

    async def tools(self) -> list[Any]:
        """Return all pages of the list of tools; raise _ExcessError if it is too long."""
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
        """Whether the connection has ended."""
        return self._task.done()

    def end(self) -> None:
        """Request a disconnect, without waiting for it."""
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
        """Close the stream; see `AsyncByteStream`."""
        await self._stream.aclose()


class _Lines(utf_8.IncrementalDecoder):
    """A decoder of UTF-8 lines of at most `MOST_BYTES`, registered as an encoding because the client requires one."""

    name = "mcp_lines"
    _bytes = 0  # bytes of the unfinished line

    def decode(self, input: Any, final: bool = False) -> str:
        """Return decoded text, and stop the session if a line is too long; see `codecs.IncrementalDecoder`."""
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
    """Return the event loop of all sessions of a process, which runs in a thread."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, daemon=True, name="mcp").start()
    return loop


def _await(what: Coroutine[Any, Any, T], seconds: float | None = SECONDS) -> T:
    """Return the result of a coroutine; raise TimeoutError if it takes longer than `seconds`."""
    return asyncio.run_coroutine_threadsafe(asyncio.wait_for(what, seconds), _loop(os.getpid())).result()


def _reason(error: BaseException) -> str:
    """Return the first error in nested exception groups, as text."""
    while (inner := getattr(error, "exceptions", None)) or (inner := ([error.__cause__] if error.__cause__ else None)):
        error = inner[0]
    return escape_controls(" ".join(f"{type(error).__name__}: {error}".split()))[:300].rstrip(":")


def _text(block: Any) -> str:
    """Return a part of an answer as text; for a part that is not text, only its type."""
    if block.type == "text":
        return block.text
    return json.dumps(f"a part of the type {block.type}, which is no text")
