"""Measure the tokens and turns saved by stopping on humaneval-v0 with feedback, under four stopping rules.

    python research/measure_stopping.py [--model MODEL] [--items 16] --out research/data/stopping_humaneval.json.xz

There are two teams: the given model, and a replay of reference solutions whose main function does all of the work.
The replay passes all tests from turn 1, 2 or 3 on, by its task, and submits an unfinished function before. It never
receives the maximum, which would end the episode.

Each team plays under these rules with the same tasks, seeds and prompts:

- `all turns` removes every mark;
- `when tests pass` adds <stop> when the feedback says that all tests passed;
- `when feedback repeats` adds <stop> when the feedback is the same as in the turn before;
- `own` leaves marks to the team.
"""

from __future__ import annotations

import argparse
import ast
import dataclasses
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any, Literal, get_args

import raw_data

import llm_dec_pomdp
from llm_dec_pomdp.agents import Request, Sampling, Scripted
from llm_dec_pomdp.agents.base import Policy
from llm_dec_pomdp.agents.io.load import load_team
from llm_dec_pomdp.envs.wrappers.stopping import MARK, Stopping
from llm_dec_pomdp.evaluation.metrics import tests_passed
from llm_dec_pomdp.rollout import Trajectories
from llm_dec_pomdp.seeding import derive
from llm_dec_pomdp.types import Completion, Episode, Message, TaskItem

Rule = Literal["all turns", "when tests pass", "when feedback repeats", "own"]
RULES: tuple[Rule, ...] = get_args(Rule)
_TESTS = re.compile(r"tests: (\d+) of (\d+) passed")
UNFINISHED = "def {name}(*args):\n    return None"
UNUSED_HELPER = "def aux(value):\n    return value"


class Remembering(Policy):
    """Policy with a cache of its actions, so that actions before a stop are the same under all rules."""

    def __init__(self, inner: Policy) -> None:
        self._inner = inner
        self._drawn: dict[Any, list[Completion]] = {}

    def generate(self, requests: Sequence[Request], sampling: Sampling) -> list[list[Completion]]:
        """Return cached actions, and ask the inner policy for new ones."""
        keys = [(request.agent, tuple(request.history), tuple(request.seeds)) for request in requests]
        new = {key: request for key, request in zip(keys, requests, strict=True) if key not in self._drawn}
        self._drawn |= zip(new, self._inner.generate(list(new.values()), sampling), strict=True)
        return [self._drawn[key] for key in keys]


@dataclass(frozen=True)
class Ruled(Policy):
    """Policy with a stopping rule."""

    inner: Policy
    rule: Rule

    def generate(self, requests: Sequence[Request], sampling: Sampling) -> list[list[Completion]]:
        """Stop if the rule does, and ask the inner policy otherwise."""
        stops = [self._stops(request.history) for request in requests]
        asked = iter(
            self.inner.generate([request for request, stop in zip(requests, stops, strict=True) if not stop], sampling)
        )
        return [
            [Completion(MARK)] * len(request.seeds) if stop else [self._marked(c) for c in next(asked)]
            for request, stop in zip(requests, stops, strict=True)
        ]

    def _stops(self, history: Sequence[Message]) -> bool:
        observations = [message.text for message in history if message.role == "observation"]
        if self.rule == "when tests pass":
            counted = _TESTS.search(observations[-1])
            return counted is not None and counted[1] == counted[2] != "0"
        return self.rule == "when feedback repeats" and len(observations) > 2 and observations[-1] == observations[-2]

    def _marked(self, completion: Completion) -> Completion:
        return (
            completion
            if self.rule == "own"
            else dataclasses.replace(completion, text=completion.text.replace(MARK, ""))
        )


def replayed(env: Stopping) -> Scripted:
    """Return the replay team, which the module docstring describes."""
    items = {env.env.observations(env.env.initial_state(item, 0))["agent_1"]: item for item in env.items}
    prompts = {str(prompt): item for prompt, item in items.items()}

    def say(agent: str, history: Sequence[Message]) -> str:
        if agent == "agent_0":
            return UNUSED_HELPER
        item = next(candidate for prompt, candidate in prompts.items() if history[0].text.startswith(prompt))
        turn = sum(message.role == "observation" for message in history)
        ready = 1 + derive(0, item.id) % 3
        return by_itself(item) if turn >= ready else UNFINISHED.format(name=item.fields["entry_point"])

    return Scripted(say)


def by_itself(item: TaskItem) -> str:
    """Return the reference solution with its helper inside of main."""
    helper, main = (ast.parse(text).body[-1] for text in item.reference)
    assert isinstance(main, ast.FunctionDef)
    main.body.insert(0, helper)
    return re.sub(r"\baux\b", "inner", ast.unparse(main))


def row(episodes: Sequence[Episode]) -> dict[str, Any]:
    """Return means over episodes."""
    final = [e.final for e in episodes]
    completions = [[c for turn in e.turns for c in turn.actions.values()] for e in episodes]
    return {
        "final score": fmean(score.total if score else 0.0 for score in final),
        "all tests passed": fmean(score is not None and tests_passed(score) == 1.0 for score in final),
        "turns": fmean(len(e.turns) for e in episodes),
        "generated tokens": fmean(sum(len(c.token_ids) for c in texts) for texts in completions),
        "prompt tokens": fmean(sum(len(c.prompt_ids) for c in texts) for texts in completions),
        "characters said": fmean(sum(len(c.text) for c in texts) for texts in completions),
        "return": fmean(e.total for e in episodes),
        "stopped": fmean(any(event.kind == "stop" for event in e.turns[-1].events) for e in episodes),
        "scores": [[turn.score.total if turn.score else None for turn in e.turns] for e in episodes],
    }


def main() -> None:
    """Play, print the results, and write them with the scores of every turn."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", help="without a model, only the replay plays")
    parser.add_argument("--items", type=int, default=16)
    parser.add_argument("--turns", type=int, default=4)
    parser.add_argument("--cost", type=float, default=0.1)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--temperature", type=float, default=0.7)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    env = llm_dec_pomdp.make("humaneval-v0", split="test", max_turns=given.turns, stopping={"cost": given.cost})
    ids = [item.id for item in env.items[: given.items]]
    seeds = [derive(0, item_id) for item_id in ids]
    sampling = Sampling(temperature=given.temperature, max_new_tokens=given.tokens)
    teams: dict[str, Policy] = {"replay": replayed(env)}
    if given.model:
        teams["model"] = Remembering(load_team(env.possible_agents, given.model, sharing="shared", train=False))
    rows: dict[str, dict[str, Any]] = {}
    for team, policy in teams.items():
        for rule in RULES if team == "model" else RULES[:2]:
            groups = Trajectories().play(env, Ruled(policy, rule), ids, seeds, sampling)
            rows[f"{team}, {rule}"] = row([group.episodes[0] for group in groups])
            print(
                f"{team}, {rule}:",
                {k: round(v, 3) for k, v in rows[f"{team}, {rule}"].items() if k != "scores"},
                flush=True,
            )
    given.model = given.model and Path(given.model).name
    raw_data.write(given.out, {"options": vars(given) | {"out": str(given.out)}, "rows": rows})


if __name__ == "__main__":
    main()
