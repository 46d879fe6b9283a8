"""Environments over HTTP: `llm-dec-pomdp serve ID` in one process, `RemoteEnv(url)` in others.

    codec       what passes over the wire, as JSON
    sessions    what a server holds of each client, and its limits
    operations  what a client may ask for
    app         HTTP and WebSocket, as an ASGI application; OpenEnv's clients talk to it too
    mcp         the tools of an agent, for clients of MCP
    server      the process: sockets, time limits
    remote      `RemoteEnv`, the client
    address     `make(url)`

An environment that a server holds never changes: a request plays a copy, which gets a number of its own. So forks,
snapshots and pickles of a `RemoteEnv` are numbers, and a request whose answer was lost is asked again.
"""

from .remote import RemoteEnv, RemoteEnvError

__all__ = ["RemoteEnv", "RemoteEnvError"]
