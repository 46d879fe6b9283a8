"""Programs of the tests, in a module that other processes can import."""

from __future__ import annotations

import asyncio
import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any

ROWS = [{"id": f"t{number}", "prompt": f"Write about the number {number}."} for number in range(4)]


def score(task: Mapping[str, Any], result: str) -> float:
    """Return a score between 0 and 1 that most texts differ in."""
    return min(len(set(result.split())) / 60, 1.0)


def plan_and_write(task: Mapping[str, Any], roles: Any) -> str:
    """Call two roles one after the other."""
    plan = roles["planner"].chat(task["prompt"])
    return roles["writer"].chat(f"Plan: {plan}\n{task['prompt']}")


def over_http(task: Mapping[str, Any], roles: Any) -> str:
    """Do the same by HTTP."""

    def ask(role: str, text: str) -> str:
        _, body = post(roles[role], {"messages": [{"role": "user", "content": text}]})
        return body["choices"][0]["message"]["content"]

    return ask("writer", f"Plan: {ask('planner', task['prompt'])}\n{task['prompt']}")


async def together(task: Mapping[str, Any], roles: Any) -> str:
    """Call two roles at the same time, then one of them again with the whole conversation."""
    first = [{"role": "user", "content": task["prompt"]}]
    plan, draft = await asyncio.gather(roles["planner"].achat(first), roles["writer"].achat("Write."))
    again = [*first, {"role": "assistant", "content": plan}, {"role": "user", "content": f"The draft: {draft}"}]
    return await roles["planner"].achat(again)


def post(role: Any, body: Any, *, key: str | None = None, name: str = "") -> tuple[int, Any]:
    """Send a request as a client of OpenAI's API does, to another role if `name` is given; return status and body."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    headers = {"Authorization": f"Bearer {role.api_key if key is None else key}", "Content-Type": "application/json"}
    url = role.base_url.replace(f"/roles/{role.name}/", f"/roles/{name or role.name}/")
    request = urllib.request.Request(f"{url}/chat/completions", content, headers)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            text = answer.read().decode()
            return answer.status, text if text.startswith("data:") else json.loads(text)
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())["error"]
