"""The roles of a served team, for programs outside of training: `solve(task, connect("http://127.0.0.1:8000/v1"))`."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..http import LONGEST_TEXT, Client, WireError, bearer, checked_address, get
from .chat import RequestError


class ServedRole:
    """A role of a served team, with the methods of `Role`.

    Attributes:
        name: The name of the role.
        base_url: The address for OpenAI clients.
        api_key: The key for OpenAI clients.
    """

    def __init__(self, name: str, base_url: str, api_key: str, timeout: float) -> None:
        self.name, self.base_url, self.api_key = name, base_url, api_key
        self._client, self._timeout = Client(), timeout

    def create(self, messages: str | Sequence[Mapping[str, Any]], **options: Any) -> dict[str, Any]:
        """Return the response to a chat-completions request; see `Role.create`.

        Raises:
            RequestError: The server refuses the request or does not answer.
        """
        given = [{"role": "user", "content": messages}] if isinstance(messages, str) else list(messages)
        content = json.dumps({**options, "model": self.name, "messages": given}).encode()
        try:
            answer = self._client.post(
                f"{self.base_url}/chat/completions", content, bearer(self.api_key), self._timeout, LONGEST_TEXT
            )
        except WireError as error:
            raise RequestError(f"{self.base_url}: {error}", status=error.status or 503) from error
        return dict(json.loads(answer))

    def chat(self, messages: str | Sequence[Mapping[str, Any]], **options: Any) -> str:
        """Return the text of the first choice; see `create`."""
        return str(self.create(messages, **options)["choices"][0]["message"]["content"] or "")

    async def acreate(self, messages: str | Sequence[Mapping[str, Any]], **options: Any) -> dict[str, Any]:
        """Return the response to a request, in an `async` program; see `create`."""
        return await asyncio.to_thread(self.create, messages, **options)

    async def achat(self, messages: str | Sequence[Mapping[str, Any]], **options: Any) -> str:
        """Return the text of the first choice, in an `async` program; see `chat`."""
        return await asyncio.to_thread(self.chat, messages, **options)


class ServedRoles(Mapping[str, ServedRole]):
    """The roles of a served team, by name."""

    seed = 0

    def __init__(self, roles: Mapping[str, ServedRole]) -> None:
        self._roles = dict(roles)

    def __getitem__(self, name: str) -> ServedRole:
        return self._roles[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._roles)

    def __len__(self) -> int:
        return len(self._roles)


def connect(base_url: str = "", api_key: str = "", timeout: float = 600.0) -> ServedRoles:
    """Return the roles of a team that `llm-dec-pomdp serve-team` serves.

    Args:
        base_url: The address that the server prints; "": `OPENAI_BASE_URL`.
        api_key: Its key; "": `OPENAI_API_KEY`.
        timeout: Seconds until an answer has to be complete.

    Raises:
        ValueError: The address is missing or unusable.
        RequestError: The server does not answer.
    """
    url = checked_address(base_url or os.environ.get("OPENAI_BASE_URL", ""), "http://127.0.0.1:8000/v1")
    key = api_key or os.environ.get("OPENAI_API_KEY", "")
    try:
        listed = json.loads(get(f"{url}/models", bearer(key), timeout))
    except WireError as error:
        raise RequestError(f"{url}: {error}", status=error.status or 503) from error
    origin = url.removesuffix("/v1")
    names = [str(model["id"]) for model in listed["data"]]
    return ServedRoles({name: ServedRole(name, f"{origin}/roles/{name}/v1", key, timeout) for name in names})
