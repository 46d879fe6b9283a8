"""Compare the cost of a call of each built-in tool with the cost of sampling the text of the call.

    python perf/tools.py [--json] [--model builtin:tiny] [--calls 10000] [--slow-calls 200] [--runs 3]

As in `WithTools`, a text is parsed, and its call is checked, run and answered. `--slow-calls` is the number of calls of
`python`, which run in sandbox processes. Texts of 24 tokens are sampled 32 at once. Both sides run in turns, and the
minimum over the runs counts. A ratio is 1 % of the sampling time / the time of the call: larger is better, and the
target is met at 1.
"""

from __future__ import annotations

import argparse
import functools
import json
from collections.abc import Callable

from sides import Timer, alternate, row

import llm_dec_pomdp
from llm_dec_pomdp.agents.base import Request, Sampling
from llm_dec_pomdp.agents.io.load import load_team
from llm_dec_pomdp.envs.tools import Kit, Toolbox, ToolState
from llm_dec_pomdp.envs.tools.python import python
from llm_dec_pomdp.envs.tools.ready import calculator, files, notes
from llm_dec_pomdp.envs.tools.search import search
from llm_dec_pomdp.envs.tools.sql import sql
from llm_dec_pomdp.seeding import derive

SHARE = 0.01  # of the sampling time
TEXTS, TOKENS = 32, 24
SLOW = ("python",)
TABLE = "CREATE TABLE towns (name TEXT, people INTEGER); INSERT INTO towns VALUES ('Ashford', 900), ('Elmton', 4100);"


def tools() -> dict[str, tuple[Kit, str]]:
    """Return for each name a kit and a text that calls it."""
    passages = [item.prompt for item in llm_dec_pomdp.make("tldr-v0").items]
    return {
        "calculator": (calculator(), 'calculate(expression="(17 + 4) * 3 / 7")'),
        "notes": (notes(), 'note(text="the ferry leaves at ten")'),
        "files": (files({"notes.txt": "one\\ntwo\\n"}), 'read_file(path="notes.txt")'),
        "search": (search(passages), 'search(query="a quiet town by the river")'),
        "sql": (sql(TABLE), 'query(statement="SELECT name FROM towns WHERE people > 1000")'),
        "python": (python(), 'python(code="print(sum(range(10)))")'),
    }


def calling(kit: Kit, text: str, count: int) -> None:
    """Parse and answer a text `count` times."""
    box, state = Toolbox([kit]), ToolState()
    for _ in range(count):
        _, answered = box.answer(state, "agent_0", box.calls("agent_0", text))
        assert answered and answered[0].valid, answered


def drawing(model: str) -> Callable[[], object]:
    """Return a function that samples TEXTS texts of at most TOKENS tokens."""
    env = llm_dec_pomdp.make("tldr-v0")
    env.reset(seed=0)
    team = load_team(["agent_0"], model, device="cpu")
    request = Request("agent_0", tuple(env.history("agent_0")), tuple(derive(0, n) for n in range(TEXTS)))
    return functools.partial(team.generate, [request], Sampling(max_new_tokens=TOKENS))


def main() -> None:
    """Measure, and print a row for every tool."""
    parser = argparse.ArgumentParser(description="Compare the cost of tool calls with the cost of sampling.")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--model", default="builtin:tiny", help="model that samples the texts")
    parser.add_argument("--calls", type=int, default=10_000)
    parser.add_argument("--slow-calls", type=int, default=200)
    parser.add_argument("--runs", type=int, default=3)
    given = parser.parse_args()
    timer, draw = Timer("wall"), drawing(given.model)
    rows = {}
    for name, (kit, text) in tools().items():
        count = given.slow_calls if name in SLOW else given.calls
        work = functools.partial(calling, kit, text, count)
        seconds = alternate(given.runs, call=functools.partial(timer, work), draw=functools.partial(timer, draw))
        call, text_drawn = seconds["call"] / count, seconds["draw"] / TEXTS
        rows[name] = row(SHARE * text_drawn / call, 1.0, calls_per_s=1 / call, share_of_drawing=call / text_drawn)
        if not given.json:
            print(
                f"{name:11} {1 / call:>9,.0f} calls/s, {100 * call / text_drawn:6.2f} % of sampling a text", flush=True
            )
    if given.json:
        print(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
