"""One HTTP request: without redirects, and with a limit of bytes and of seconds for the whole answer.

Standard library, with the proxies of the environment and the certificates of the system. Its own time limit is for each
read, so a server that sends a byte now and then never reaches it; the limit here is for the whole answer.
"""

from __future__ import annotations

import contextlib
import email.utils
import functools
import io
import re
import ssl
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Any, TypeVar
from urllib.parse import urlsplit

from .storage.secrets import keep_secret, masked
from .visible import visible

T = TypeVar("T")
MOST_BYTES = 1 << 24  # of one answer, headers included
LONGEST_TEXT = 1 << 20  # bytes of an answer with one text
_AT_ONCE = 1 << 20  # bytes read at once
_FIRST_WAIT = 0.25  # seconds before the second try; they double from try to try
_LONGEST_WAIT = 60.0  # seconds, also where a server asks for more
_SHOWN = 300  # bytes of a refusal in a message
_AGAIN = (408, 425, 429)  # refusals below 500 that are worth another try


class WireError(Exception):
    """A request without a usable answer.

    Attributes:
        again: Whether another try may help.
        wait: Seconds that the server asks to wait; None where it says nothing.
        status: HTTP status of a refusal; None where there was none.
        said: The beginning of what the server said with it.
    """

    def __init__(
        self, reason: str, *, again: bool = True, wait: float | None = None, status: int | None = None, said: str = ""
    ) -> None:
        super().__init__(reason)
        self.again = again
        self.wait = wait
        self.status = status
        self.said = said


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
    raise WireError(reason, again=failure.again, status=failure.status, said=failure.said)


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
    shown = re.split("[?#]", url.rpartition("@")[2])[0]
    if not url.startswith(("http://", "https://")):
        raise ValueError(f"url is {shown!r}; it must begin with http:// or https://")
    try:
        parts = urlsplit(url)
        whole = bool(parts.hostname) and parts.port != 0 and url.isprintable() and " " not in url
    except ValueError:  # about the port or brackets; its message may quote a password
        whole, parts = False, None
    if "@" in url.split("/")[2] or "?" in url or "#" in url:
        raise ValueError(
            f"the address of the server {shown!r} has a user name, a password, a query or a fragment, and addresses "
            f"are stored with every run; write it as {example} and give {key}"
        )
    if not whole:
        raise ValueError(f"url is {shown!r}, which is no address; write it as {example}")
    return url.rstrip("/")


def bearer(key: str | None) -> dict[str, str]:
    """The headers of a request in JSON, with a key where there is one; it is masked from now on."""
    keep_secret(key)
    return {"Content-Type": "application/json", **({"Authorization": f"Bearer {key}"} if key else {})}


def without_key(error: WireError, key: str | None) -> str:
    """The text of an error without the key, which the server may have repeated."""
    return visible(str(error).replace(key, "[key]") if key else str(error))


def post(url: str, body: bytes, headers: dict[str, str], timeout: float, most: int = MOST_BYTES) -> bytes:
    """What a server answers.

    Args:
        url: The address.
        body: What to send.
        headers: Beside the usual ones.
        timeout: Seconds to connect, to send, and until the answer is complete.
        most: Bytes of the answer; no more are read.

    Raises:
        WireError: Anything that goes wrong, refusals and redirects included.
    """
    return _answer(_Request(url, body, headers, most), timeout)


def get(url: str, headers: dict[str, str], timeout: float, most: int = LONGEST_TEXT) -> bytes:
    """What a server answers that is asked with an address alone; see `post`."""
    return _answer(_Request(url, None, headers, most), timeout)


class _Request(urllib.request.Request):
    """A request that says how long its answer may be."""

    def __init__(self, url: str, body: bytes | None, headers: dict[str, str], most: int) -> None:
        super().__init__(url, body, headers)
        self.most = most


def _answer(request: _Request, timeout: float) -> bytes:
    try:
        with _opener().open(request, timeout=timeout) as answer:
            received = bytearray()
            while part := answer.read1(_AT_ONCE):
                received += part
            return masked(bytes(received))
    except urllib.error.HTTPError as error:
        raise _refusal(error) from None
    except (OSError, HTTPException, ValueError) as error:
        raise WireError(str(error) or type(error).__name__) from None


def _refusal(error: urllib.error.HTTPError) -> WireError:
    """The error for a status other than success; only the beginning of its body is read."""
    with error:
        if 300 <= error.code < 400:
            reason = "it redirects to another address, which is not followed; give the final address"
            return WireError(f"HTTP {error.code}: {reason}", again=False)
        try:
            said = masked(error.read(_SHOWN)).decode(errors="replace")
        except (OSError, HTTPException, ValueError):
            said = "its reason could not be read"
        again = error.code >= 500 or error.code in _AGAIN
        wait = wait_asked(error.headers.get("Retry-After"))
        return WireError(f"{error}: {said}", again=again, wait=wait, status=error.code, said=said)


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


# --- limits -----------------------------------------------------------------------------------------------------------


class _Received(io.RawIOBase):
    """A socket for reading a response, up to a moment and a number of bytes."""

    def __init__(self, sock: Any, end: float, most: int) -> None:
        self._socket, self._raw, self._end = sock, sock.makefile("rb", buffering=0), end
        self._bytes, self._most = 0, most

    def makefile(self, mode: str) -> io.BufferedReader:
        return io.BufferedReader(self)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        count = None
        if (left := self._end - time.monotonic()) > 0:
            self._socket.settimeout(left)
            with contextlib.suppress(TimeoutError):
                count = self._raw.readinto(buffer)
        if count is None:
            raise TimeoutError(f"timed out after {self._bytes} bytes")
        self._bytes += count
        if self._bytes > self._most:
            raise OSError(f"its answer is longer than {self._most} bytes")
        return count

    def close(self) -> None:
        self._raw.close()
        super().close()


class _Bounded:
    """A connection whose responses have limits."""

    def __init__(self, host: str, *, most: int, timeout: float = 60.0, **options: Any) -> None:
        super().__init__(host, timeout=timeout, **options)  # pyright: ignore[reportCallIssue]
        end = time.monotonic() + timeout
        self.response_class = lambda sock, **how: HTTPResponse(_Received(sock, end, most), **how)  # pyright: ignore


class _Plain(_Bounded, HTTPConnection):
    pass


class _Secure(_Bounded, HTTPSConnection):
    pass


class _Connect(urllib.request.HTTPHandler, urllib.request.HTTPSHandler):
    def __init__(self) -> None:
        super().__init__()
        self._certificates = ssl.create_default_context()

    def http_open(self, req: Any) -> HTTPResponse:
        return self.do_open(_Plain, req, most=req.most)  # pyright: ignore[reportArgumentType]

    def https_open(self, req: Any) -> HTTPResponse:
        return self.do_open(_Secure, req, most=req.most, context=self._certificates)  # pyright: ignore[reportArgumentType]


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Makes redirects an error, since they would take the key and the prompt to another host."""

    def http_error_302(self, req: Any, fp: Any, code: int, msg: str, headers: Any) -> None:
        return None

    http_error_301 = http_error_303 = http_error_307 = http_error_308 = http_error_302


@functools.cache
def _opener() -> urllib.request.OpenerDirector:
    return urllib.request.build_opener(_Connect, _NoRedirects)
