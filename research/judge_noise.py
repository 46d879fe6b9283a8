"""Measure how much noise of a judge MAGRPO and MADPO survive, on tasks whose return is known.

    python research/judge_noise.py bandit-v0 --out research/data/judge_noise_bandit.json.xz # trains, prints the table
    python research/judge_noise.py relay-v0 --out research/data/judge_noise_relay.json.xz
    python research/judge_noise.py --table research/data/judge_noise_*.json.xz              # prints the tables

The judge is the package's own `PrincipleJudge` with a scripted policy in place of a language model. The policy reads
the prompt, and compares every two texts in it. With probability `bias` it prefers the text shown first. Otherwise, with
probability 2 x `flip` its answer is a coin, so that a flip of 0.5 carries no information and is the control. Otherwise
the text with the higher return wins. Texts are ranked by the number of texts that they beat. With `fixed`, the coin
depends on the seed of the run, the task and the two texts only, so that the judge repeats its errors.

| method | judged |
|---|---|
| magrpo | each group of 8 episodes is ranked |
| madpo | the same; the best and the worst episode are a pair |
| labels | 24 pairs for each task, of 24 recorded episodes of the untrained team; MADPO is trained on these answers |

All methods train tables for 40 updates (relay-v0: 60) of 8 tasks x 8 episodes. On relay-v0, with two agents that act in
turn, only flips and the first two methods are measured: labels do not train this team, even without noise (40 % on a
trial seed). The bias and the repeated errors are measured on bandit-v0.

Predictions, written before the runs:

1. MAGRPO loses less than 10 points of its return without noise up to a flip of 0.3, and is above the control at 0.4.
2. MADPO on its own episodes: the same.
3. MADPO on labels loses more: on bandit-v0 at least 15 points at a flip of 0.3, and at 0.4 it is not above the control.
4. At a flip of 0.2, a bias of 0.5 costs less than 10 points if both orders are asked. With one random order it costs
   labels at least 10 points more than with both; MAGRPO and MADPO on own episodes lose less than 10 points in either
   case, since a random order turns the bias into noise.
5. Fixed errors hurt more than fresh ones: MAGRPO with a fixed flip of 0.3 loses at least 10 points.
"""

from __future__ import annotations

import argparse
import itertools
import re
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import raw_data
import torch

import llm_dec_pomdp
from llm_dec_pomdp.agents import Policy, Sampling
from llm_dec_pomdp.agents.base import Request
from llm_dec_pomdp.agents.principles import PrincipleJudge
from llm_dec_pomdp.envs.wrappers import with_protocol
from llm_dec_pomdp.episodes import Header, TraceWriter
from llm_dec_pomdp.evaluation.intervals import mean_interval
from llm_dec_pomdp.report.tables import bounds
from llm_dec_pomdp.results.labels import Labels, judge_pairs
from llm_dec_pomdp.seeding import derive, generator
from llm_dec_pomdp.types import Completion

FLIPS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)
METHODS = {"bandit-v0": ("magrpo", "madpo", "labels"), "relay-v0": ("magrpo", "madpo")}
STEPS = {"bandit-v0": 40, "relay-v0": 60}
SEEDS = range(5)
SAMPLES, PAIRS = 24, 24  # recorded episodes and labelled pairs of a task


class Arm(NamedTuple):
    """A judge: probabilities of a flip and of the first text, orders that are asked, whether errors are repeated."""

    flip: float
    bias: float = 0.0
    orders: int = 2
    fixed: bool = False


BIASED = (Arm(0.2, bias=0.5), Arm(0.2, bias=0.5, orders=1))
REPEATED = tuple(Arm(flip, fixed=True) for flip in FLIPS[1:5])
ARMS = {"bandit-v0": (*map(Arm, FLIPS), *BIASED, *REPEATED), "relay-v0": tuple(map(Arm, FLIPS))}


class NoisyRanker(Policy):
    """A policy that ranks the texts of a prompt of `PrincipleJudge` by their returns, with errors; see the module."""

    def __init__(self, value: Callable[[str, str], float], arm: Arm, seed: int) -> None:
        self.value, self.arm, self.seed = value, arm, seed

    def generate(self, requests: Sequence[Request], sampling: Sampling) -> list[list[Completion]]:
        """Return a ranking per request."""
        return [[Completion(self._ranking(request.history[0].text, request.seeds[0]))] for request in requests]

    def _ranking(self, prompt: str, seed: int) -> str:
        _, _, asked = prompt.rpartition("\n\nThe task:\n")
        task, *texts = re.split(r"\n\nText \d+:\n", asked.rpartition("\n\n")[0])
        random, beaten = generator(seed, "answers"), [0.0] * len(texts)
        for first, second in itertools.combinations(range(len(texts)), 2):
            biased, coin, side = random.random(3)
            difference = self.value(task, texts[first]) - self.value(task, texts[second])
            if self.arm.fixed:
                pair = sorted([texts[first], texts[second]])
                coin, side = generator(derive(self.seed, "fixed", task, *pair)).random(2)
                side = side if pair[0] == texts[first] else 1 - side
            if coin < 2 * self.arm.flip:
                difference = side - 0.5
            if biased < self.arm.bias:
                difference = 1.0
            beaten[first] += (difference > 0) + (difference == 0) / 2
            beaten[second] += (difference < 0) + (difference == 0) / 2
        ranks = sorted(set(beaten), reverse=True)
        return " > ".join(" = ".join(str(k + 1) for k, b in enumerate(beaten) if b == rank) for rank in ranks)


def make(task: str) -> tuple[Any, Callable[[str, str], float]]:
    """Return the environment of a task, and the function from a task and a transcript to the return."""
    if task == "bandit-v0":
        env = llm_dec_pomdp.make(task)
        words = {item.prompt: item.fields["word"] for item in env.items}
        return env, lambda asked, text: float(text == f"player acts: {words[asked]}")
    env = with_protocol(llm_dec_pomdp.make(task, n_agents=2), "sequential")

    def value(asked: str, text: str) -> float:
        word = re.search(r"The word is (\w+)\.", f"{asked} {text}")
        return float(word is not None and text.endswith(f"listener acts: {word[1]}"))

    return env, value


def trained(task: str, method: str, arm: Arm, seed: int) -> dict[str, float]:
    """Return the return after training in %, and the metrics of the judge."""
    env, value = make(task)
    team = llm_dec_pomdp.load_team(env, "builtin:table", sharing="separate", seed=seed)
    judge = PrincipleJudge(NoisyRanker(value, arm, seed), ["Prefer the higher return."], orders=arm.orders)  # type: ignore[arg-type]
    measured: dict[str, list[float]] = {}

    def note(step: Any) -> None:
        for name, number in step.metrics.items():
            if name.startswith("judge_"):
                measured.setdefault(name, []).append(number)

    size: dict[str, Any] = {"steps": STEPS[task], "prompts_per_step": 8, "group_size": 8, "seed": seed}
    if method != "labels":
        llm_dec_pomdp.train(team, env, method, judge=judge, on_step=note, **size)
    else:
        with tempfile.TemporaryDirectory() as folder:
            source, place = Path(folder, "traces.jsonl"), Path(folder, "pairs.jsonl")
            groups = llm_dec_pomdp.collect(team, env, samples=SAMPLES, seed=seed)
            with TraceWriter(source) as writer:
                for group, item in zip(groups, env.items, strict=True):
                    for episode in group.episodes:
                        writer.write_episode(episode, Header.of(env), item)
            answers = judge_pairs(Labels(str(source), place, PAIRS, seed), judge)
            measured = {name: [number] for name, number in answers.items()}
            llm_dec_pomdp.train(team, env, "madpo", source=str(place), **size)
    summary = llm_dec_pomdp.evaluate(team, env, samples=20, seed=derive(seed, "evaluation"))
    return {"return": summary.return_percent.mean, **{name: fmean(numbers) for name, numbers in measured.items()}}


def tables(rows: Sequence[dict[str, Any]]) -> None:
    """Print a table for each task: means over the seeds and their 95 % intervals."""
    for task, methods in METHODS.items():
        found = {(Arm(**row["arm"]), row["method"]): row["seeds"] for row in rows if row["task"] == task}
        if found:
            print(f"\n| judge on `{task}` | {' | '.join(methods)} |\n|---{'|---' * len(methods)}|")
        for arm in dict.fromkeys(arm for arm, _ in found):
            title = f"flip {arm.flip:g}"
            title += f", bias {arm.bias:g}, {('one order', 'both orders')[arm.orders - 1]}" if arm.bias else ""
            title += " (control)" if arm.flip == 0.5 else ", repeated errors" if arm.fixed else ""
            intervals = [mean_interval([seed["return"] for seed in found[arm, method]]) for method in methods]
            print(f"| {title} | {' | '.join(f'{i.mean:.1f} ({bounds(i)})' for i in intervals)} |")


def main() -> None:
    """Train, write the file, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", nargs="?", choices=METHODS)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--table", type=Path, nargs="+")
    given = parser.parse_args()
    if given.table:
        tables([row for path in given.table for row in raw_data.read(path)])
        return
    torch.set_num_threads(1)
    rows: list[dict[str, Any]] = []
    for arm, method in itertools.product(ARMS[given.task], METHODS[given.task]):
        seeds = [trained(given.task, method, arm, seed) for seed in SEEDS]
        rows.append({"task": given.task, "method": method, "arm": arm._asdict(), "seeds": seeds})
        print(method, arm, [round(seed["return"], 1) for seed in seeds], flush=True)
        raw_data.write(given.out, rows)
    tables(rows)


if __name__ == "__main__":
    main()
