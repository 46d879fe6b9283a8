"""HTTP requests: without redirects, and with a limit of bytes and of seconds for each whole answer.

By httpx2, with the proxies of the environment and the certificates of the system. Its own time limits are for each
read, so a server that sends a byte now and then never reaches them; the limit here is for the whole answer.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import email.utils
import functools
import os
import re
import ssl
import threading
import time
import weakref
from collections.abc import Callable, Coroutine
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar
from urllib.parse import urlsplit

from .storage.secrets import keep_secret, masked
from .visible import visible

if TYPE_CHECKING:
    import httpx2

T = TypeVar("T")
_Work: TypeAlias = "Callable[[httpx2.AsyncClient], Coroutine[Any, Any, T]]"
MOST_BYTES = 1 << 24  # of one answer
LONGEST_TEXT = 1 << 20  # bytes of an answer with one text
_FIRST_WAIT = 0.25  # seconds before the second try; they double from try to try
_LONGEST_WAIT = 60.0  # seconds, also where a server asks for more
_SHOWN = 300  # bytes of a refusal in a message
_REFUSAL = 1 << 12  # bytes of a refusal that are read
_LONGEST_REST = 4.0  # seconds that an unused connection is kept; common servers close theirs after 5
_GOODBYE = 1.0  # seconds to wait until connections are closed
_AGAIN = (408, 425, 429)  # refusals below 500 that are worth another try


class WireError(Exception):
    """A request without a usable answer.

    Attributes:
        again: Whether another try may help.
        wait: Seconds that the server asks to wait; None where it says nothing.
        status: HTTP status of a refusal; None where there was none.
        body: The beginning of what the server wrote with it.
    """

    def __init__(
        self, reason: str, *, again: bool = True, wait: float | None = None, status: int | None = None, body: str = ""
    ) -> None:
        super().__init__(reason)
        self.again = again
        self.wait = wait
        self.status = status
        self.body = body


def retried(attempt: Callable[[], T], tries: int, given_up: threading.Event | None = None) -> T:
    """The result of `attempt`, tried again after a while where that may help.

    Args:
        attempt: Asks once; raises WireError where there is no usable answer.
        tries: Most attempts. The pause between them is what the server asks for (Retry-After), else 0.25 s, then twice
            as long each time; at most a minute.
        given_up: Once it is set, nothing is tried again.

    Raises:
        WireError: The last one, with the number of tries.
    """
    given_up = given_up or threading.Event()
    number, failure, pause = 0, WireError("it was not asked"), 0.0
    while failure.again and number < tries and not given_up.wait(min(pause, _LONGEST_WAIT)):
        number += 1
        try:
            return attempt()
        except WireError as error:
            failure, pause = error, _FIRST_WAIT * 2 ** (number - 1) if error.wait is None else error.wait
    times = "1 try" if number == 1 else f"{number} tries"
    reason = f"no usable answer in {times}: {failure}"
    raise WireError(reason, again=failure.again, status=failure.status, body=failure.body)


def checked_address(
    url: str, example: str = "http://host:port/v1", key: str = "the key as OPENAI_API_KEY (in Python: api_key)"
) -> str:
    """The base address of a server, without a slash at its end.

    Args:
        url: The address.
        example: Such an address, for messages.
        key: What to give in place of a password, and where, for messages.

    Raises:
        ValueError: It is no address, or holds what must not be stored: a user name, a password, a query or a fragment,
            which the message leaves out.
    """
    address = re.split("[?#]", url.rpartition("@")[2])[0]
    if not url.startswith(("http://", "https://")):
        raise ValueError(f"url is {address!r}; it must begin with http:// or https://")
    try:
        parts = urlsplit(url)
        whole = bool(parts.hostname) and parts.port != 0 and url.isprintable() and " " not in url
    except ValueError:  # about the port or brackets; its message may quote a password
        whole, parts = False, None
    if "@" in url.split("/")[2] or "?" in url or "#" in url:
        raise ValueError(
            f"the address of the server {address!r} has a user name, a password, a query or a fragment, and addresses "
            f"are stored with every run; write it as {example} and give {key}"
        )
    if not whole:
        raise ValueError(f"url is {address!r}, which is no address; write it as {example}")
    return url.rstrip("/")


def bearer(key: str | None) -> dict[str, str]:
    """The headers of a request in JSON, with a key where there is one; it is masked from now on."""
    keep_secret(key)
    return {"Content-Type": "application/json", **({"Authorization": f"Bearer {key}"} if key else {})}


def without_key(error: WireError, key: str | None) -> str:
    """The text of an error without the key, which the server may have repeated."""
    return visible(str(error).replace(key, "[key]") if key else str(error))


def post(url: str, body: bytes, headers: dict[str, str], timeout: float, most: int = MOST_BYTES) -> bytes:
    """Return the answer of a server to a body, over a connection of its own.

    Args:
        url: The address.
        body: Bytes to send.
        headers: Headers besides the usual ones.
        timeout: Seconds to connect, to send, and until the answer is complete.
        most: Bytes of the answer; no more are read.

    Raises:
        WireError: Anything that goes wrong, refusals and redirects included.
    """
    return _answer(_once, "POST", url, body, headers, timeout, most)


def get(url: str, headers: dict[str, str], timeout: float) -> bytes:
    """Return the answer of a server to an address alone; see `post`."""
    return _answer(_once, "GET", url, None, headers, timeout, LONGEST_TEXT)


class Client:
    """Sends requests over connections that it keeps open between them (keep-alive); any thread may use it.

    Its connections live in the event loop of a thread of its own, which starts with the first request and ends with
    `close` or when the client is garbage collected. A copy, an unpickled client and a forked process open their own
    connections. Cookies are not kept.
    """

    def __init__(self) -> None:
        self._kept: dict[int, _Kept] = {}  # by process: a fork must not use the connections of its parent

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[type[Client], tuple[()]]:
        return Client, ()

    def close(self) -> None:
        """Close its connections; a later request opens new ones."""
        if kept := self._kept.pop(os.getpid(), None):
            kept.close()

    def post(self, url: str, body: bytes, headers: dict[str, str], timeout: float, most: int = MOST_BYTES) -> bytes:
        """Return the answer of a server to a body; see the function `post`."""
        return _answer(self._run, "POST", url, body, headers, timeout, most)

    def _run(self, work: _Work[T]) -> T:
        if (kept := self._kept.get(os.getpid())) is None:
            kept = self._kept.setdefault(os.getpid(), _Kept())  # atomic: another thread may be first
        return kept.run(work)


class _Kept:
    """Open connections, and the event loop of a thread that serves them; see `Client`."""

    def __init__(self) -> None:
        self._client = _client()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lock = threading.Lock()
        self._end: Callable[[], object] = lambda: None

    def run(self, work: _Work[T]) -> T:
        with self._lock:
            if self._loop is None:
                started = _Started()
                thread = threading.Thread(target=_serve, args=(self._client, started), name="http", daemon=True)
                thread.start()
                self._loop, over = started.result()
                self._end = weakref.finalize(self, _end, thread, self._loop, over, os.getpid())
        return asyncio.run_coroutine_threadsafe(work(self._client), self._loop).result()

    def close(self) -> None:
        self._end()


class _Started(concurrent.futures.Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]]):
    """The loop of `_Kept`, and the event that ends it."""


def _serve(client: httpx2.AsyncClient, started: _Started) -> None:
    """Run the loop of a client's connections until its event is set."""

    async def keep() -> None:
        over = asyncio.Event()
        async with client:
            started.set_result((asyncio.get_running_loop(), over))
            await over.wait()

    try:
        asyncio.run(keep())
    except BaseException as error:  # e.g. too many open files: the caller waits for it
        if started.done():
            raise
        started.set_exception(error)


def _end(thread: threading.Thread, loop: asyncio.AbstractEventLoop, over: asyncio.Event, process: int) -> None:
    """End the thread of `_Kept`; the garbage collector may call this in any thread, also in that one."""
    if os.getpid() != process or loop.is_closed():
        return
    loop.call_soon_threadsafe(over.set)
    if threading.current_thread() is not thread:
        thread.join(_GOODBYE)


def _once(work: _Work[T]) -> T:
    """Return the result of work with a client of its own; in another thread where this one runs a loop already."""

    async def alone() -> T:
        async with contextlib.aclosing(_client()) as client:
            return await work(client)

    if not _is_looping():
        return asyncio.run(alone())
    with concurrent.futures.ThreadPoolExecutor(1) as other:
        return other.submit(lambda: asyncio.run(alone())).result()


def _is_looping() -> bool:
    with contextlib.suppress(RuntimeError):
        return bool(asyncio.get_running_loop())
    return False


def _answer(
    run: Callable[[_Work[bytes]], bytes],
    method: str,
    url: str,
    body: bytes | None,
    headers: dict[str, str],
    timeout: float,
    most: int,
) -> bytes:
    """Return the answer to a request by a client that `run` provides; see `post`."""
    import httpx2

    received = bytearray()
    opened = False

    async def note_connections(event: str, _: Any) -> None:
        nonlocal opened
        opened = opened or event.startswith("connection.connect")

    async def ask(client: httpx2.AsyncClient) -> bytes:
        extensions = {"trace": note_connections}
        while True:
            try:
                async with client.stream(method, url, content=body, headers=headers, extensions=extensions) as answer:
                    if answer.is_success:
                        await _read(answer, received, most)
                        return masked(bytes(received))
                    raise await _refusal(answer, received)
            except (httpx2.NetworkError, httpx2.RemoteProtocolError):
                if opened or received:
                    raise  # else the server had closed a kept connection: take the next one, at last a new one

    try:
        return run(lambda client: asyncio.wait_for(ask(client), timeout))
    except TimeoutError:
        raise WireError(f"timed out after {len(received)} bytes of {timeout:g} s") from None
    except concurrent.futures.CancelledError:
        raise WireError("the client was closed before an answer came", again=False) from None
    except (httpx2.HTTPError, httpx2.InvalidURL, OSError, ValueError) as error:
        raise WireError(_reason(error)) from None


def _reason(error: BaseException) -> str:
    """What lies below an error of a connection: "Connection refused" rather than that all attempts failed."""
    while cause := error.__cause__ or error.__context__:
        error = cause
    if isinstance(error, OSError) and (error.errno or 0) > 0:
        return os.strerror(error.errno or 0)
    return str(error) or type(error).__name__


async def _read(answer: httpx2.Response, received: bytearray, most: int) -> None:
    """Receive the body of an answer as it comes.

    Raises:
        OSError: It is longer than `most` bytes.
    """
    async for part in answer.aiter_raw():
        received += part
        if len(received) > most:
            raise OSError(f"its answer is longer than {most} bytes")


async def _refusal(answer: httpx2.Response, received: bytearray) -> WireError:
    """The error for a status other than success; only the beginning of its body is read."""
    import httpx2

    status = f"HTTP {answer.status_code}"
    if answer.is_redirect:
        reason = "it redirects to another address, which is not followed; give the final address"
        return WireError(f"{status}: {reason}", again=False, status=answer.status_code)
    with contextlib.suppress(httpx2.HTTPError, OSError):  # what came says enough
        await _read(answer, received, _REFUSAL)
    body = masked(bytes(received[:_REFUSAL])).decode(errors="replace")
    again = answer.status_code >= 500 or answer.status_code in _AGAIN
    wait = wait_asked(answer.headers.get("Retry-After"))
    reason = f"{status} {answer.reason_phrase}: {body[:_SHOWN]}"
    return WireError(reason, again=again, wait=wait, status=answer.status_code, body=body)


def _client() -> httpx2.AsyncClient:
    import httpx2

    return httpx2.AsyncClient(
        verify=_certificates(),
        timeout=None,
        headers={"Accept-Encoding": "identity"},
        limits=httpx2.Limits(max_connections=None, max_keepalive_connections=None, keepalive_expiry=_LONGEST_REST),
        cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),  # none
    )


@functools.cache
def _certificates() -> ssl.SSLContext:
    return ssl.create_default_context()


def wait_asked(retry_after: str | None) -> float | None:
    """Seconds to wait by a Retry-After header, a number of seconds or a date; None where it says neither."""
    if retry_after is None:
        return None
    if re.fullmatch("[0-9]{1,9}", retry_after.strip()):
        return float(retry_after)
    try:
        return max(0.0, email.utils.parsedate_to_datetime(retry_after).timestamp() - time.time())
    except (ValueError, OverflowError):
        return None
