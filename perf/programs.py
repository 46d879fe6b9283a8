"""How much time agent programs add to sampling: 16 programs that call two roles over HTTP, against the same episodes
of a native environment.

    python perf/programs.py MODEL.gguf

Prints the ratio of the times in one process, median of pairs. The texts are equal.
"""

from __future__ import annotations

import statistics
import sys
import time
from typing import Any

import llm_dec_pomdp
from llm_dec_pomdp import Sampling, from_program
from llm_dec_pomdp.envs import Facts, Task, TaskSource, Transition
from llm_dec_pomdp.http import Client
from llm_dec_pomdp.rollout import Trajectories
from llm_dec_pomdp.types import Score

PROGRAMS, PAIRS, TOKENS = 16, 5, 64
ROLES = ("planner", "writer")
CLIENT = Client()  # keeps its connections, as OpenAI clients do
ROWS = [{"id": f"t{i}", "prompt": f"Describe the number {i} in a few sentences."} for i in range(4)]


def second(plan: str, prompt: str) -> str:
    """Return the prompt of the second role."""
    return f"Plan: {plan}\n{prompt}"


def solve(task: Any, roles: Any) -> str:
    """Call both roles over HTTP."""
    import json

    def ask(role: str, text: str) -> str:
        body = json.dumps({"messages": [{"role": "user", "content": text}]}).encode()
        headers = {"Authorization": f"Bearer {roles[role].api_key}"}
        answer = json.loads(CLIENT.post(f"{roles[role].base_url}/chat/completions", body, headers, 600.0))
        return str(answer["choices"][0]["message"]["content"])

    return ask("writer", second(ask("planner", task["prompt"]), task["prompt"]))


class Native(Task[tuple[Any, ...]]):
    """The same task as an environment."""

    source = TaskSource("native")
    declared = Facts(name="native", roles=ROLES, components=("score",), score_range=(0, 1), shares_texts=True)

    def initial_state(self, item: Any, seed: int) -> tuple[Any, ...]:
        """Return the state before the first text."""
        return (item,)

    def observations(self, state: tuple[Any, ...]) -> dict[str, str]:
        """Return the observation of the agent that is next."""
        item, *texts = state
        if not texts:
            return {"agent_0": item.prompt}
        return {"agent_1": second(texts[0], item.prompt)} if len(texts) == 1 else {}

    def transition(self, state: tuple[Any, ...], actions: Any, seed: int) -> Transition[tuple[Any, ...]]:
        """Add the text; the second one ends the episode."""
        state = (*state, *actions.values())
        score = Score(0.0, {"score": 0.0}) if len(state) == 3 else None
        return Transition(state, 0.0, score, terminated=score is not None)


def main() -> None:
    """Measure."""
    program = from_program(solve, roles=ROLES, tasks=ROWS, split="all", score=lambda task, result: 0.0)
    native = Native(ROWS, split="all", max_turns=2)
    team = llm_dec_pomdp.load_team(native, sys.argv[1], sharing="shared", dtype="bfloat16")
    width = PROGRAMS // len(ROWS)
    sampling = Sampling(max_new_tokens=TOKENS)
    ratios: list[float] = []
    for pair in range(-1, PAIRS):  # the first pair warms up
        seconds: list[float] = []
        texts: list[list[str]] = []
        for env in (native, program):
            start = time.perf_counter()
            ids = [str(row["id"]) for row in ROWS]
            groups = Trajectories().play(env, team, ids, list(range(pair, pair + 4)), sampling, width)
            seconds.append(time.perf_counter() - start)
            texts.append([e.last_texts["agent_1"] for group in groups for e in group.episodes])
        assert texts[0] == texts[1]
        if pair >= 0:
            ratios.append(seconds[1] / seconds[0])
            print(f"native {seconds[0]:.2f} s, {PROGRAMS} programs {seconds[1]:.2f} s", flush=True)
    print(f"ratio: {statistics.median(ratios):.3f}")


if __name__ == "__main__":
    main()
