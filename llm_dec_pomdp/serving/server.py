"""The process that serves an environment. Needs the extra "serve"."""

from __future__ import annotations

import os

from ..envs import TextDecPOMDP
from .sessions import Limits, Sessions
from .web import WebServer  # isort: split

from .app import LOCAL, application  # after `web`, whose ImportError names the package to install

_WAITING = 32  # requests at the same time, if the environment waits for another process


class Server(WebServer):
    """A server of an environment. It listens from the start, and answers requests while `run` runs.

    Args:
        env: The environment that every session starts with.
        host: Address of this machine to listen at.
        port: Its port; 0: a free one.
        token: Token that every request except GET /health needs; required if other machines can reach the host.
        limits: Limits of its sessions.

    Attributes:
        url: The address.

    Raises:
        ValueError: Other machines can reach the host and there is no token, or the token cannot be sent.
        OSError: The server cannot listen there, for example because another process does.
    """

    def __init__(
        self,
        env: TextDecPOMDP,
        host: str = "127.0.0.1",
        port: int = 8000,
        *,
        token: str | None = None,
        limits: Limits | None = None,
    ) -> None:
        if host not in LOCAL and token is None:
            raise ValueError(
                f"host is {host!r}, which other machines can reach; give --token (or LLM_DEC_POMDP_TOKEN) too"
            )
        if token is not None and not (token.isascii() and token.isprintable() and token and " " not in token):
            raise ValueError(
                "the token is empty, or has a character that no header may contain, such as a space; give another token"
            )
        limits = limits or Limits()
        threads = _WAITING if env.facts.judges_code else os.cpu_count() or 1
        super().__init__(application(Sessions(env, limits), token, threads), host, port, limits.connections)
