"""Measure the credit of messages on relay-v0, for the speaker that observes the word and for the other speakers.

    python research/relay_credit.py [RUN ...]

The first rows are a team of known behaviour. The next rows are the trained teams of RUN, the folder of a `bench`. A
number is the mean |credit| of the messages before the last turn, in % of the highest return. The baseline is three
messages sampled from the same history, or silence. Trained teams have the 95 % interval over their seeds.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

from llm_dec_pomdp import make
from llm_dec_pomdp.agents import Policy, Sampling, Team
from llm_dec_pomdp.agents.base import Request
from llm_dec_pomdp.algorithms.credit import MessageCredit
from llm_dec_pomdp.benchmarks.cell import build_cell
from llm_dec_pomdp.envs.relay import NOTHING, WORDS
from llm_dec_pomdp.envs.wrappers import with_protocol
from llm_dec_pomdp.evaluation.intervals import mean_interval
from llm_dec_pomdp.report.tables import bounds
from llm_dec_pomdp.results.runs import read_run
from llm_dec_pomdp.rollout import Messages
from llm_dec_pomdp.seeding import uniforms
from llm_dec_pomdp.types import Completion

COMPARED = {"drawn": Messages(alternatives=3), "silence": Messages(alternatives=0, silence=True)}
ROLES = ("knowing", "other speakers", "listener")


class Relaying(Policy):
    """Policy of known behaviour; with 0.7, a speaker's action is its observed word, or that it has none, else any word.

    The listener's action is the first word in the messages that it received, or any word.
    """

    def generate(self, requests: Sequence[Request], sampling: Sampling) -> list[list[Completion]]:
        """Return one completion of one token per seed, so that learners accept it."""
        texts = [[self._say(r.history[-1].text, seed) for seed in r.seeds] for r in requests]
        return [[Completion(text, (0,), (0,), (0.0,)) for text in drawn] for drawn in texts]

    def _say(self, observation: str, seed: int) -> str:
        u, which = uniforms(seed, 2)
        any_word = WORDS[int(which * len(WORDS))]
        if observation.startswith(("The word is", "You do not know")):
            known = next((word for word in WORDS if f"word is {word}." in observation), NOTHING)
            return known if u < 0.7 else any_word
        return next((line for line in observation.splitlines() if line in WORDS), any_word)


def sizes(env: Any, team: Team, sampling: Sampling, rollout: Messages, episodes: int = 4) -> dict[str, float]:
    """Return the mean |credit| of the messages of each role in %; a listener without drafts has none."""
    items = env.items
    groups = rollout.play(env, team, [item.id for item in items], range(len(items)), sampling, episodes)
    by_role: dict[str, list[float]] = {role: [] for role in ROLES}
    for item, group in zip(items, groups, strict=True):
        for decision in (d for d in group.decisions if d.turn < env.max_turns - 1):
            alone = replace(group, decisions=(decision,))
            for sample in MessageCredit().samples(alone, 1.0):
                role = "listener" if sample.agent == env.possible_agents[-1] else "other speakers"
                role = "knowing" if sample.agent == env.task.knowing(item) else role
                by_role[role].append(100 * abs(sample.advantage))
    return {role: fmean(values) for role, values in by_role.items() if values}


def row(team: str, protocol: str, against: str, seeds: Sequence[Mapping[str, float]]) -> str:
    """Return a row of the table."""
    cells: list[str] = []
    for role in ROLES:
        values = [seed[role] for seed in seeds if role in seed]
        interval = f" ({bounds(mean_interval(values))})" if len(values) > 2 else ""
        cells.append(f"{fmean(values):.1f}{interval}" if values else "")
    return f"| {team} | {protocol} | {against} | {' | '.join(cells)} |"


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="*", type=Path, metavar="RUN")
    entries = [e for run in parser.parse_args().runs for e in read_run(run).entries if e.result is not None]
    print(f"| team | protocol | against | {' | '.join(ROLES)} |", "|---" * (3 + len(ROLES)) + "|", sep="\n")
    for protocol in ("sequential", "discussion"):
        env = with_protocol(make("relay-v0", n_agents=4), protocol)
        team = Team(dict.fromkeys(env.possible_agents, Relaying()))
        for against, rollout in COMPARED.items():
            print(row("of known behaviour, n = 4", protocol, against, [sizes(env, team, Sampling(), rollout, 8)]))
    lines: dict[tuple[str, str, str], list[dict[str, float]]] = {}
    for entry in entries:
        setup = build_cell(entry.cell.loaded(), entry.folder / "team")
        for against, rollout in COMPARED.items():
            measured = sizes(setup.eval_env, setup.team, setup.sampling, rollout)
            lines.setdefault((entry.cell.method.title, entry.cell.protocol, against), []).append(measured)
    for names, seeds in lines.items():
        print(row(*names, seeds))


if __name__ == "__main__":
    main()
