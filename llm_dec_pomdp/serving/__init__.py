"""Environments over HTTP: `llm-dec-pomdp serve ID` in one process, `RemoteEnv(url)` in others.

codec       environments as JSON
sessions    the states of each client's episodes, and their limits
protocol    the messages of OpenEnv's protocol, with two more: fork and tasks
app         the Starlette application
web         the web server of an application: sockets, time limits
mcp         the tools of an agent, for clients of MCP
server      the process that serves an environment
remote      `RemoteEnv`, the client
address     `make(url)`
"""

from .remote import RemoteEnv, RemoteEnvError

__all__ = ["RemoteEnv", "RemoteEnvError"]
