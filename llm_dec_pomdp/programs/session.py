"""One run of an agent program: its open calls, and the replies to them.

The environment's thread alternates with the program: `wait` returns when the program waits for replies or has ended,
and `reply` lets it continue. A program waits if it has an open call and can make no further call before a reply. This
is certain for a synchronous function that calls `Role.chat` and for an `async` function whose event loop is idle. For
clients over HTTP it is assumed `window` seconds after the last request.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import inspect
import json
import math
import os
import secrets
import selectors
import signal
import subprocess
import threading
import time
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from .chat import Call, RequestError, check_role, ignored_options, read_call, reply_message, response

current: contextvars.ContextVar[Session] = contextvars.ContextVar("session")
"""The run that the calling code belongs to."""
_ENDED = "the episode has ended, so no role answers; make clients inside the program, once for each episode"
_SHOWN = 4000  # characters of a program's output in an error


@dataclass(slots=True)
class OpenCall:
    """A call without a complete reply.

    Attributes:
        role: The role that is called.
        call: The request.
        future: Receives the body of the response.
        messages: The replies so far, of which there are `call.samples` in the end.
        awaited: Whether a coroutine of the program's event loop awaits the response.
    """

    role: str
    call: Call
    awaited: bool = False
    future: Future[dict[str, Any]] = field(default_factory=Future[dict[str, Any]])
    messages: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])


@dataclass(frozen=True, slots=True)
class Ending:
    """The end of a program: its result, or the reason why it has none.

    Attributes:
        result: The return value, or the standard output of a command.
        failure: The traceback or the reason; "" if the program returned.
    """

    result: Any = None
    failure: str = ""


class Session(ABC):
    """A running program.

    Args:
        task: The row of the task.
        roles: Names of the roles.
        seed: A seed for chance in the program.
        window: Seconds without a new request after which a program with an open call is assumed to wait.
        timeout: Seconds that a program may run without a call.

    Attributes:
        key: The API key of this run.
        ignored: Sampling options of its requests that were replaced by those of the run.
    """

    def __init__(
        self, task: Mapping[str, Any], roles: Sequence[str], seed: int, *, window: float, timeout: float
    ) -> None:
        self.task, self.role_names, self.seed = task, tuple(roles), seed
        self.key = secrets.token_urlsafe(24)
        self.ignored: set[str] = set()
        self._window, self._timeout = window, timeout
        self._changed = threading.Condition()
        self._open: list[OpenCall] = []
        self._certain = False  # the program can make no call before a reply
        self._undelivered = 0  # responses that its event loop has not read
        self._last = 0.0  # time of the last request
        self._replies = 0
        self._rewards: list[float] = []
        self._refusal = ""  # the answer to further calls
        self._ending: Ending | None = None

    @abstractmethod
    def start(self) -> None:
        """Start the program."""

    @abstractmethod
    def _kill(self) -> None:
        """End a program that does not end by itself."""

    # --- the program's side ---------------------------------------------------------------------------------------

    def submit(self, role: str, body: Mapping[str, Any]) -> Future[dict[str, Any]]:
        """Open a call and return the future of its response; see `open`."""
        return self.open(role, body).future

    def open(self, role: str, body: Mapping[str, Any], *, certain: bool = False, awaited: bool = False) -> OpenCall:
        """Open a call.

        Args:
            role: The role that is called.
            body: The request, see `chat.read_call`.
            certain: Whether the program can make no other call before the reply.
            awaited: Whether a coroutine of the program's event loop awaits the response.

        Raises:
            RequestError: There is no such role, the request cannot be honoured, or the episode has ended.
        """
        check_role(role, self.role_names)
        opened = OpenCall(role, read_call(body), awaited)
        with self._changed:
            if self._refusal:
                raise RequestError(self._refusal, code="episode_ended")
            self.ignored |= set(ignored_options(body))
            self._open.append(opened)
            self._certain = certain
            self._last = time.monotonic()
            self._changed.notify_all()
        return opened

    def delivered(self, opened: OpenCall) -> None:
        """Record that a coroutine has received the response of its call, or was cancelled."""
        with self._changed:
            if opened in self._open:
                self._open.remove(opened)
            elif opened.future.done():
                self._undelivered -= 1
            self._changed.notify_all()

    def add_reward(self, value: float) -> None:
        """Add to the reward of the current turn."""
        with self._changed:
            self._rewards.append(float(value))

    def be_idle(self, idle: bool) -> None:
        """Record whether the event loop of the program is idle."""
        with self._changed:
            self._certain = idle
            self._changed.notify_all()

    def end(self, ending: Ending) -> None:
        """Record the end of the program; only the first call has an effect."""
        with self._changed:
            self._ending = self._ending or ending
            self._refuse(_ENDED)
            self._changed.notify_all()

    # --- the environment's side -----------------------------------------------------------------------------------

    @property
    def ending(self) -> Ending | None:
        """Return the end of the program; None while it runs."""
        return self._ending

    def wait(self) -> dict[str, Call]:
        """Wait until the program waits for replies or has ended; return the first open call of each role.

        A program that does neither within the timeout is ended.
        """
        deadline = time.monotonic() + self._timeout
        with self._changed:
            while self._ending is None:
                now = time.monotonic()
                quiet = self._last + self._window - now
                if self._open and ((self._certain and not self._undelivered) or quiet <= 0):
                    break
                if now >= deadline:
                    break
                self._changed.wait(min(quiet, deadline - now) if self._open else deadline - now)
            first: dict[str, Call] = {}
            for opened in self._open:
                first.setdefault(opened.role, opened.call)
        if not first and self._ending is None:
            self.end(Ending(failure=f"the program made no call for {self._timeout:g} s (timeout)"))
            self._kill()
        return first

    def reply(self, texts: Mapping[str, str], *, last: str = "") -> dict[str, dict[str, Any]]:
        """Answer the first open call of each role and return the messages for the program, by role.

        Args:
            texts: The action of each role.
            last: The error that all other and all further calls receive; "": calls remain open.
        """
        messages: dict[str, dict[str, Any]] = {}
        done: list[OpenCall] = []
        with self._changed:
            self._certain = False
            for role, text in texts.items():
                opened = next(opened for opened in self._open if opened.role == role)
                messages[role] = reply_message(opened.call, text, self._replies)
                self._replies += 1
                opened.messages.append(messages[role])
                if len(opened.messages) == opened.call.samples:
                    self._open.remove(opened)
                    self._undelivered += opened.awaited
                    done.append(opened)
            self._last = time.monotonic()
            if last:
                self._refuse(last)
        for opened in done:
            opened.future.set_result(response(opened.role, f"chatcmpl-{self._replies}", opened.messages))
        return messages

    def take_rewards(self) -> float:
        """Return the sum of the rewards since the last call of this method."""
        with self._changed:
            total, self._rewards = math.fsum(self._rewards), []
            return total

    def close(self) -> None:
        """End the program; its open and further calls receive an error."""
        self.end(Ending(failure=_ENDED))
        self._kill()

    def _refuse(self, reason: str) -> None:
        self._refusal = self._refusal or reason
        refused, self._open = self._open, []
        for opened in refused:
            self._undelivered += opened.awaited
            opened.future.set_exception(RequestError(self._refusal, code="episode_ended"))


class Role:
    """A role as a program calls it, by `chat` or by an OpenAI client with `base_url` and `api_key`.

    Attributes:
        name: The name of the role.
    """

    def __init__(self, name: str, session: Session) -> None:
        self.name, self._session = name, session

    @property
    def api_key(self) -> str:
        """Return the key for OpenAI clients; it is valid for this episode."""
        return self._session.key

    @property
    def base_url(self) -> str:
        """Return the address for OpenAI clients; the first use starts the endpoint of this process."""
        from .endpoint import local_endpoint

        return local_endpoint().url(self._session, self.name)

    def create(self, messages: str | Sequence[Mapping[str, Any]], **options: Any) -> dict[str, Any]:
        """Return the response to a chat-completions request.

        Args:
            messages: A text of the user, or messages as in OpenAI's API.
            options: Further fields: `tools`, `stop`, `n`. Sampling options are replaced by those of the run.

        Raises:
            RequestError: The request cannot be honoured, or the episode has ended.
        """
        certain = threading.current_thread() is getattr(self._session, "thread", None)
        return self._open(messages, options, certain=certain).future.result()

    def chat(self, messages: str | Sequence[Mapping[str, Any]], **options: Any) -> str:
        """Return the text of the first choice; see `create`."""
        return str(self.create(messages, **options)["choices"][0]["message"]["content"] or "")

    async def acreate(self, messages: str | Sequence[Mapping[str, Any]], **options: Any) -> dict[str, Any]:
        """Return the response to a request, in an `async` program; see `create`."""
        opened = self._open(messages, options, awaited=True)
        try:
            return await asyncio.wrap_future(opened.future)
        finally:
            self._session.delivered(opened)

    async def achat(self, messages: str | Sequence[Mapping[str, Any]], **options: Any) -> str:
        """Return the text of the first choice, in an `async` program; see `chat`."""
        return str((await self.acreate(messages, **options))["choices"][0]["message"]["content"] or "")

    def _open(self, messages: str | Sequence[Mapping[str, Any]], options: Mapping[str, Any], **how: bool) -> OpenCall:
        if current.get(self._session) is not self._session:
            raise RequestError(
                f"this {self.name!r} belongs to another episode; use the roles that the program received",
                code="wrong_episode",
            )
        given = [{"role": "user", "content": messages}] if isinstance(messages, str) else list(messages)
        return self._session.open(self.name, {**options, "messages": given}, **how)


class Roles(Mapping[str, Role]):
    """The roles of a program, by name.

    Attributes:
        seed: A seed for chance in the program, the same in every replay of the episode.
    """

    def __init__(self, session: Session) -> None:
        self.seed = session.seed
        self._roles = {name: Role(name, session) for name in session.role_names}

    def __getitem__(self, name: str) -> Role:
        check_role(name, self._roles)
        return self._roles[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._roles)

    def __len__(self) -> int:
        return len(self._roles)


def reward(value: float) -> None:
    """Add to the team's reward of the current turn. A program calls this between its calls of roles.

    Args:
        value: The addition. Rewards of the program and the score at its end are added.

    Raises:
        RuntimeError: The caller is not a program of `from_program`.
    """
    session = current.get(None)
    if session is not None:
        session.add_reward(value)
        return
    if not (url := os.environ.get("LLM_DEC_POMDP_REWARD_URL")):
        raise RuntimeError("reward() is called outside of a program; call it in a program of from_program")
    from ..http import Client, bearer

    content = json.dumps({"reward": float(value)}).encode()
    Client().post(url, content, bearer(os.environ.get("OPENAI_API_KEY")), 30.0)


# --- forms of programs ------------------------------------------------------------------------------------------------


class ThreadSession(Session):
    """A Python function `solve(task, roles)`, synchronous or `async`, in a separate thread."""

    thread: threading.Thread

    def __init__(self, solve: Callable[..., Any], *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._solve = solve

    def start(self) -> None:
        """Start the program."""
        self.thread = threading.Thread(target=self._run, name="program", daemon=True)
        self.thread.start()

    def _run(self) -> None:
        current.set(self)
        try:
            result = self._solve(dict(self.task), Roles(self))
            if inspect.iscoroutine(result):
                with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(_Selector(self))) as runner:
                    result = runner.run(result)
            ending = Ending(result)
        except BaseException:  # a program may call sys.exit
            ending = Ending(failure=traceback.format_exc(limit=-8))
        self.end(ending)

    def _kill(self) -> None:
        pass  # its next call raises; Python cannot end a thread


class _Selector(selectors.DefaultSelector):
    """The selector of a program's event loop, which records when the loop is idle."""

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Wait for events; without a time limit and without other sockets, the loop waits only for replies."""
        alone = timeout is None and len(self.get_map()) <= 1  # one: the socket that wakes the loop
        if alone:
            self._session.be_idle(True)
        try:
            return super().select(timeout)
        finally:
            if alone:
                self._session.be_idle(False)


class CommandSession(Session):
    """A command in a separate process.

    It reads the row of the task as JSON from standard input, and its result is its standard output. Its environment
    has `OPENAI_BASE_URL` and `OPENAI_API_KEY`; the field `model` of a request names the role. For a role NAME there is
    also `OPENAI_BASE_URL_NAME`. `LLM_DEC_POMDP_SEED` has the seed.
    """

    def __init__(self, command: Sequence[str], *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._command = list(command)
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Start the program."""
        from .endpoint import local_endpoint

        endpoint = local_endpoint()
        urls = {f"OPENAI_BASE_URL_{name.upper()}": endpoint.url(self, name) for name in self.role_names}
        own = {
            "OPENAI_BASE_URL": endpoint.url(self),
            "OPENAI_API_KEY": self.key,
            "LLM_DEC_POMDP_REWARD_URL": f"{endpoint.url(self)}/reward",
            "LLM_DEC_POMDP_SEED": str(self.seed),
        }
        self._process = subprocess.Popen(
            self._command,
            env={**os.environ, **urls, **own},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        threading.Thread(target=self._follow, args=(self._process,), name="program", daemon=True).start()

    def _follow(self, process: subprocess.Popen[str]) -> None:
        written, errors = process.communicate(json.dumps(dict(self.task)))
        code = process.returncode
        failure = "" if code == 0 else f"{self._command[0]} ended with code {code}\n{errors[-_SHOWN:]}"
        self.end(Ending(written.strip(), failure))

    def _kill(self) -> None:
        if self._process is not None and self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError):  # it has just ended
                os.killpg(self._process.pid, signal.SIGKILL)
