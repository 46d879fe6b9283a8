"""HTTP requests without redirects, with a limit of bytes and of seconds for each answer.

They use httpx2, the proxies of the environment and the certificates of the system. The time limit of httpx2 is for each
read. The limit here is for the whole answer.
"""

from __future__ import annotations

import contextlib
import email.utils
import functools
import os
import re
import ssl
import threading
import time
from collections.abc import Callable
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from .printable import escape_controls
from .storage.secrets import keep_secret, masked

if TYPE_CHECKING:
    import httpx2

T = TypeVar("T")
MOST_BYTES = 1 << 24  # bytes of one answer
LONGEST_TEXT = 1 << 20  # bytes of an answer with one text
_FIRST_WAIT = 0.25  # seconds before the second try; doubled with each try
_LONGEST_WAIT = 60.0  # seconds, even if a server requests a longer wait
_SHOWN = 300  # bytes of a refusal that an error message quotes
_REFUSAL = 1 << 12  # bytes of a refusal that are read
_LONGEST_REST = 4.0  # seconds that an unused connection is kept; common servers close connections after 5
_AGAIN = (408, 425, 429)  # status codes below 500 after which a request is retried


class WireError(Exception):
    """A request without a usable answer.

    Attributes:
        again: Whether a retry may help.
        wait: Seconds to wait before a retry, as the server requests; None if it does not.
        status: HTTP status of a refusal; None if there was no response.
        body: The beginning of the body of the refusal.
    """

    def __init__(
        self, reason: str, *, again: bool = True, wait: float | None = None, status: int | None = None, body: str = ""
    ) -> None:
        super().__init__(escape_controls(masked(reason.encode(errors="replace")).decode()))
        self.again = again
        self.wait = wait
        self.status = status
        self.body = body


def retried(attempt: Callable[[], T], tries: int, given_up: threading.Event | None = None) -> T:
    """Return the result of `attempt`; call it again after a pause if it fails and a retry may help.

    Args:
        attempt: Function that sends the request once. It raises WireError if there is no usable answer.
        tries: Maximum number of attempts. The pause is the one that the server requests (Retry-After). Without a
            request it is 0.25 s, and doubles with each retry. It is at most a minute.
        given_up: Event after which no further attempt is made.

    Raises:
        WireError: The last error, with the number of tries.
    """
    given_up = given_up or threading.Event()
    number, failure, pause = 0, WireError("no request was sent"), 0.0
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
    """Return the base address of a server, without a slash at its end.

    Args:
        url: The address.
        example: An example of a valid address, for error messages.
        key: How to pass a key in place of a password, for error messages.

    Raises:
        ValueError: The address is invalid, or has a part that must not be stored: a user name, a password, a query or a
            fragment. The message leaves this part out.
    """
    address = re.split("[?#]", url.rpartition("@")[2])[0]
    if not url.startswith(("http://", "https://")):
        raise ValueError(f"url is {address!r}; it must begin with http:// or https://")
    try:
        parts = urlsplit(url)
        whole = bool(parts.hostname) and parts.port != 0 and url.isprintable() and " " not in url
    except ValueError:  # an invalid port or bracket; the original message may quote a password
        whole, parts = False, None
    if "@" in url.split("/")[2] or "?" in url or "#" in url:
        raise ValueError(
            f"the address of the server {address!r} has a user name, a password, a query or a fragment, which would be "
            f"stored with every run; write it like {example} and give {key}"
        )
    if not whole:
        raise ValueError(f"url is {address!r}, which is no address; write it like {example}")
    return url.rstrip("/")


def bearer(key: str | None) -> dict[str, str]:
    """Return the headers of a JSON request, with the key if there is one; `masked` hides the key from now on."""
    keep_secret(key)
    return {"Content-Type": "application/json", **({"Authorization": f"Bearer {key}"} if key else {})}


def post(url: str, body: bytes, headers: dict[str, str], timeout: float, most: int = MOST_BYTES) -> bytes:
    """Send a body over a new connection and return the answer of the server.

    Args:
        url: The address.
        body: Bytes to send.
        headers: Headers in addition to the usual ones.
        timeout: Seconds to connect, to send, to wait for the first byte, and to receive the whole answer.
        most: Largest number of bytes of the answer.

    Raises:
        WireError: The request failed; refusals and redirects included.
    """
    with _client() as client:
        return _answer(client, "POST", url, body, headers, timeout, most)


def get(url: str, headers: dict[str, str], timeout: float) -> bytes:
    """Send a GET request and return the answer of the server; see `post`."""
    with _client() as client:
        return _answer(client, "GET", url, None, headers, timeout, LONGEST_TEXT)


class Client:
    """A client that keeps connections open between requests (keep-alive); any thread may use it.

    A copy, an unpickled client and a forked process open their own connections. Cookies are not kept.
    """

    def __init__(self) -> None:
        self._kept: dict[int, httpx2.Client] = {}  # by process: a fork must not use its parent's connections

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __del__(self) -> None:
        with contextlib.suppress(Exception):  # when the interpreter ends, its modules may be gone
            self.close()

    def __reduce__(self) -> tuple[type[Client], tuple[()]]:
        return Client, ()

    def close(self) -> None:
        """Close the connections; a later request opens new ones."""
        if client := self._kept.pop(os.getpid(), None):
            client.close()

    def post(self, url: str, body: bytes, headers: dict[str, str], timeout: float, most: int = MOST_BYTES) -> bytes:
        """Send a body and return the answer of the server; see the function `post`."""
        if (client := self._kept.get(os.getpid())) is None:
            client = self._kept.setdefault(os.getpid(), _client())  # atomic: another thread may be first
        return _answer(client, "POST", url, body, headers, timeout, most)


def _answer(
    client: httpx2.Client,
    method: str,
    url: str,
    body: bytes | None,
    headers: dict[str, str],
    timeout: float,
    most: int,
) -> bytes:
    """Return the answer to a request; see `post`."""
    import httpx2

    received = bytearray()
    opened = False

    def note_connections(event: str, _: object) -> None:
        nonlocal opened
        opened = opened or event.startswith("connection.connect")

    sent: dict[str, Any] = {"content": body, "headers": headers, "extensions": {"trace": note_connections}}
    deadline = time.monotonic() + timeout
    try:
        while True:
            try:
                with client.stream(method, url, timeout=timeout, **sent) as answer:
                    if answer.is_success:
                        _read(answer, received, most, deadline)
                        return masked(bytes(received))
                    raise _refusal(answer, received, deadline)
            except (httpx2.NetworkError, httpx2.RemoteProtocolError):
                if opened or received:
                    raise  # otherwise the server had closed a kept connection: try the next one, at last a new one
    except (httpx2.TimeoutException, TimeoutError):
        raise WireError(f"timed out after {len(received)} bytes of {timeout:g} s") from None
    except (httpx2.HTTPError, httpx2.InvalidURL, OSError, ValueError) as error:
        raise WireError(_reason(error)) from None


def _reason(error: BaseException) -> str:
    """Return the root cause of a failed connection, such as "Connection refused"."""
    while cause := error.__cause__ or error.__context__:
        error = cause
    if isinstance(error, OSError) and (error.errno or 0) > 0:
        return os.strerror(error.errno or 0)
    return str(error) or type(error).__name__


def _read(answer: httpx2.Response, received: bytearray, most: int, deadline: float) -> None:
    """Receive the body of an answer in parts.

    Raises:
        OSError: The body is longer than `most` bytes, or incomplete at the deadline (TimeoutError).
    """
    for part in answer.iter_raw():
        received += part
        if time.monotonic() > deadline:
            raise TimeoutError
        if len(received) > most:
            raise OSError(f"its answer is longer than {most} bytes")


def _refusal(answer: httpx2.Response, received: bytearray, deadline: float) -> WireError:
    """Return the error for a status other than success; read only the beginning of its body."""
    import httpx2

    status = f"HTTP {answer.status_code}"
    if answer.is_redirect:
        reason = "the server redirects to another address, and redirects are not followed; give the final address"
        return WireError(f"{status}: {reason}", again=False, status=answer.status_code)
    with contextlib.suppress(httpx2.HTTPError, OSError):  # the part that arrived suffices
        _read(answer, received, _REFUSAL, deadline)
    body = masked(bytes(received[:_REFUSAL])).decode(errors="replace")
    again = answer.status_code >= 500 or answer.status_code in _AGAIN
    wait = wait_asked(answer.headers.get("Retry-After"))
    reason = f"{status} {answer.reason_phrase}: {body[:_SHOWN]}"
    return WireError(reason, again=again, wait=wait, status=answer.status_code, body=body)


def _client() -> httpx2.Client:
    import httpx2

    return httpx2.Client(
        verify=_certificates(),
        headers={"Accept-Encoding": "identity"},
        limits=httpx2.Limits(max_connections=None, max_keepalive_connections=None, keepalive_expiry=_LONGEST_REST),
        cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),  # no cookies
    )


@functools.cache
def _certificates() -> ssl.SSLContext:
    return ssl.create_default_context()


def wait_asked(retry_after: str | None) -> float | None:
    """Return the seconds of a Retry-After header (a number or a date); None if it is neither."""
    if retry_after is None:
        return None
    if re.fullmatch("[0-9]{1,9}", retry_after.strip()):
        return float(retry_after)
    try:
        return max(0.0, email.utils.parsedate_to_datetime(retry_after).timestamp() - time.time())
    except (ValueError, OverflowError):
        return None
