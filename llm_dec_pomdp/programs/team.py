"""A team as an endpoint for programs: the command `serve-team`. Needs the extra "serve".

The same messages that a program sends in training reach the same policies here, so a program is used as it was trained.
"""

from __future__ import annotations

import hmac
import secrets
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple

from ..agents.base import Policy, Request, Sampling
from ..serving.web import WebServer
from ..types import Message
from .chat import (
    Call,
    ChatMessage,
    RequestError,
    check_role,
    conversation_after,
    observed,
    read_call,
    reply_message,
    response,
)
from .endpoint import CONNECTIONS, application

_REMEMBERED = 10_000  # conversations whose next request continues them
_AT_ONCE = 64  # calls that are sampled together


class Asked(NamedTuple):
    """A call that waits for its samples."""

    role: str
    call: Call
    history: tuple[Message, ...]
    ids: tuple[int, ...]
    seed: int
    future: Future[dict[str, Any]]


class Past(NamedTuple):
    """A conversation that this server has answered: the history of its agent, and the tokens of prompt and reply."""

    history: tuple[Message, ...]
    ids: tuple[int, ...]


class TeamBackend:
    """A backend that answers calls with a team. Calls that arrive while it samples form the next batch.

    Args:
        team: The policies.
        agents: Role -> agent.
        sampling: Sampling options of the team; the options of requests are ignored, except for `seed`.
        seed: The first seed; every call without a seed takes the next one.
    """

    def __init__(self, team: Policy, agents: Mapping[str, str], sampling: Sampling, seed: int = 0) -> None:
        self._team, self._agents, self._sampling = team, dict(agents), sampling
        self._seed = seed
        self._past: OrderedDict[tuple[str, tuple[ChatMessage, ...]], Past] = OrderedDict()
        self._waiting: list[Asked] = []
        self._changed = threading.Condition()
        threading.Thread(target=self._run, name="team", daemon=True).start()

    @property
    def role_names(self) -> tuple[str, ...]:
        """Return the names of the roles."""
        return tuple(self._agents)

    def submit(self, role: str, body: Mapping[str, Any]) -> Future[dict[str, Any]]:
        """Return the future of a response.

        Raises:
            RequestError: There is no such role, or the request cannot be honoured.
        """
        check_role(role, self._agents)
        call = read_call(body)
        with self._changed:
            past = next(
                (known for n in range(len(call.messages) - 1, 0, -1) if (known := self._known(role, call, n))), None
            )
            before = None if past is None else past[0]
            message = observed(call, before).message
            history = (*(() if past is None else past[1].history), message)
            seed = body.get("seed")
            if type(seed) is not int:
                seed, self._seed = self._seed, self._seed + 1
            asked = Asked(role, call, history, () if past is None else past[1].ids, seed, Future())
            self._waiting.append(asked)
            self._changed.notify()
        return asked.future

    def _known(self, role: str, call: Call, length: int) -> tuple[tuple[ChatMessage, ...], Past] | None:
        past = self._past.get((role, begun := call.messages[:length]))
        return None if past is None else (begun, past)

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._waiting:
                    self._changed.wait()
                batch, self._waiting = self._waiting[:_AT_ONCE], self._waiting[_AT_ONCE:]
            try:
                self._answer(batch)
            except Exception as error:  # the server continues
                for asked in batch:
                    if not asked.future.done():
                        asked.future.set_exception(
                            RequestError(f"{type(error).__name__}: {error}", code="server_error", status=500)
                        )

    def _answer(self, batch: Sequence[Asked]) -> None:
        requests = [
            Request(
                self._agents[asked.role],
                asked.history,
                tuple(range(asked.seed, asked.seed + asked.call.samples)),
                asked.ids,
                asked.call.tools,
            )
            for asked in batch
        ]
        for asked, completions in zip(batch, self._team.generate(requests, self._sampling), strict=True):
            messages = [reply_message(asked.call, c.text, asked.seed + i) for i, c in enumerate(completions)]
            with self._changed:
                for completion, message in zip(completions, messages, strict=True):
                    ids = () if completion.thought else completion.prompt_ids + completion.token_ids
                    history = (*asked.history, Message("action", completion.text))
                    self._past[asked.role, conversation_after(asked.call, message)] = Past(history, ids)
                while len(self._past) > _REMEMBERED:
                    self._past.popitem(last=False)
            body = response(asked.role, f"chatcmpl-{secrets.token_hex(8)}", messages)
            used = [completion.prompt_tokens for completion in completions[:1]]
            sampled = sum(completion.sampled_tokens for completion in completions)
            if used and used[0] == used[0] and sampled == sampled:
                total = {"prompt_tokens": int(used[0]), "completion_tokens": int(sampled)}
                body["usage"] = {**total, "total_tokens": sum(total.values())}
            asked.future.set_result(body)


def team_server(backend: TeamBackend, key: str, host: str = "127.0.0.1", port: int = 8000) -> WebServer:
    """Return a server of a team; requests need the API key `key`."""

    def find(given: str) -> TeamBackend | None:
        return backend if hmac.compare_digest(given.encode(), key.encode()) else None

    return WebServer(application(find), host, port, CONNECTIONS)
