"""Any text in any registered environment: it raises nothing, gives numbers, and is read in linear time."""

from __future__ import annotations

import json
import math
import os
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from every import make_least

import llm_dec_pomdp
from llm_dec_pomdp.envs import TextDecPOMDP
from llm_dec_pomdp.envs.tools.python import python
from llm_dec_pomdp.envs.tools.ready import calculator, files, notes
from llm_dec_pomdp.envs.tools.search import search
from llm_dec_pomdp.envs.tools.sql import sql
from llm_dec_pomdp.envs.wrappers import WithTools

BY_A_MODEL = ("tldr-v2", "arxiv-v2")
VARIANTS: dict[str, Callable[[], TextDecPOMDP]] = {
    "calls by letter": lambda: make_least("calls-v0", candidates=True),
    "research by letter": lambda: make_least("research-v0", candidates=True),
    "all ready tools": lambda: with_tools(),
}
NAMES = [*sorted(llm_dec_pomdp.registry), *VARIANTS]
VALUES = [
    *("[1]", "null", "1", "true", '""', '"no JSON"', '"[1]"', '"{}"', '"\\"{}\\""', '"' + "[" * 20_000 + '"', "{}"),
    *('{"a": NaN}', '{"a": 1e999}', '{"a": -1e999}', '{"a": ' + "9" * 4300 + "}", '{"a": ' + "9" * 5000 + "}"),
    *('{"a": ' + "[" * levels + "]" * levels + "}" for levels in (49, 60, 400, 990)),
    *('{"": 1}', '{"a": 1, "a": [2]}', '{"\\ud800": "\\udfff"}', '{"a": "\\u0000"}', '{"name": "NAME"}'),
]
CALLS = [
    *(f'{{"name": "NAME", "arguments": {value}}}' for value in VALUES),
    *('{"name": "NAME"}', '{"name": 1}', '{"name": ""}', '{"name": null}', '{"name": ["NAME"]}', '{"name": "\\ud800"}'),
    *("NAME(*[1])", "NAME(**{'a': 1})", "NAME(a=1, a=2)", "NAME(a=x)", "NAME(1, 2, 3, 4, 5)", "NAME(a=1j)", "NAME("),
    *("NAME(a={(1, 2): 3})", "NAME(a=" + "-" * 3000 + "1)", "NAME(a=0x" + "f" * 9000 + ")", "NAME(a=1e999)", "x.y.z()"),
]
FORMS = ["{}", "[{}]", "[{}, {}]", "```json\n{}\n```", "<tool_call>{}</tool_call>", "So:\n{}", "<tool_call>{}"]
TEXTS = [
    *("", " ", "\x00", "\ud800", "\u202e", "9" * 5000, "-1", "1e999", "[" * 3000, "<tool_call>" * 50, "```", "```json"),
    *(FORMS[place % len(FORMS)].replace("{}", call) for place, call in enumerate(CALLS)),
    *(form.replace("{}", '{"name": "NAME", "arguments": ["x"]}') for form in FORMS),
]
WORDS = (
    *(
        "PROPOSE",
        "PROPOSE harbour",
        "BOOK",
        "BOOK Mon",
        "Mon",
        "best",
        "SET",
        "SET roaming",
        "note:",
        "forget:",
        "keep",
    ),
    *("calendar", "calendar:", "to agent_0:", "to", "[main]", "def aux", "async", "class A", "return", "import", "Q e"),
    *("museum", "look", "count", "ask(", "f(", "{", "[", "(", "<tool_call>", "```", "```json", "~~~", ">>>", "#", "'"),
)
TESTS = str(Path(__file__).parents[1])
SECONDS = 12  # of CPU for an environment; those that read in linear time take 0.1 to 2
REPEATED = [" ", "\n", ":", "(", "`", "1 ", ", ", ") "]


def with_tools() -> TextDecPOMDP:
    kits = [calculator(), notes(), files({"a.txt": "x"}), search(["a passage"]), python(), sql("CREATE TABLE t (a)")]
    return WithTools(llm_dec_pomdp.make("tldr-v0"), kits, rounds=2)


def made(name: str) -> TextDecPOMDP:
    return VARIANTS[name]() if name in VARIANTS else make_least(name)


def after(env: TextDecPOMDP, turns: int) -> bool:
    """Play a few turns of a team without a model; returns whether the episode continues."""
    env.reset(seed=1, options={"index": 0})
    team = env.script(env.facts.scripts[0])
    for _ in range(turns):
        if env.agents:
            env.step({a: team(a, env.history(a)) if env.asked(a) else "" for a in env.agents})
    return bool(env.agents)


def check(results: tuple[Any, ...]) -> None:
    observations, rewards, *_, infos = results
    assert all(isinstance(text, str) for text in observations.values())
    numbers = [*rewards.values(), *(number for info in infos.values() for number in info.values())]
    assert not any(math.isinf(number) for number in numbers)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if name in BY_A_MODEL else ()) for name in NAMES]
)
def test_no_text_raises(name: str) -> None:
    env = made(name)
    texts = TEXTS[:: 5 if env.facts.judges_code else 1]  # programs take long
    for turns in (0, 1, 2) if env.facts.hierarchical else (0,):
        for place in range(0, len(texts), 2):
            if not after(env, turns):
                continue
            for text in texts[place : place + 2]:
                if env.agents:
                    tools = {agent: [tool.name for tool in env.tools(agent)] or ["f"] for agent in env.agents}
                    check(env.step({agent: text.replace("NAME", names[0]) for agent, names in tools.items()}))
            json.loads(env.state())


# --- time -------------------------------------------------------------------------------------------------------------


def long_texts(count: int) -> Iterator[str]:
    """Texts with words of grammars before many equal signs, which quadratic readers scan again and again."""
    for sign in REPEATED:
        yield "\n".join(f"{word}{sign * count}" for word in WORDS)


def play_long_texts(names: list[str]) -> None:
    """Step each environment with long texts; the kernel ends the process where one takes too much CPU time."""
    for name in names:
        sys.stdout.write(f"{name}\n")
        sys.stdout.flush()
        used = sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
        resource.setrlimit(resource.RLIMIT_CPU, (int(used) + SECONDS, resource.RLIM_INFINITY))
        env = made(name)
        for turns in (0, 1) if env.facts.hierarchical else (0,):
            for text in long_texts(60_000):
                if after(env, turns):
                    env.step(dict.fromkeys(env.agents, text))


@pytest.mark.slow
def test_long_texts_are_read_in_linear_time() -> None:
    names = [name for name in NAMES if name not in BY_A_MODEL]
    command = [sys.executable, __file__, *names]
    ended = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": TESTS}, check=False
    )
    assert ended.returncode == 0, f"{ended.stdout.splitlines()[-1]}\n{ended.stderr}"
    assert ended.stdout.splitlines() == names


if __name__ == "__main__":
    play_long_texts(sys.argv[1:])
