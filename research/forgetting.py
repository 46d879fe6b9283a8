"""Compute the perplexity of given texts under trained teams, as a probe of what training made the model forget.

    python research/forgetting.py RUN [RUN ...] --texts FILE --field FIELD [--items N] [--json FILE]
    python research/forgetting.py --table FILE

FILE has one JSON object per line. The texts should differ from those of the training, such as programs after training
on summaries. Each text is scored without a prompt, by every trained member of every cell and by the model before
training. The output has, for each cell, exp(-mean log pi per token) of the untrained model and of each member, and the
change of -log pi per token in nats, paired by text, with a 95 % t interval over texts. A positive change is forgetting.
`--table` prints the mean change of each method from the file that `--json` wrote, and its difference from the first
method, paired by seed, with t intervals over seeds if there are at least three.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import raw_data
from compare_results import over_seeds

from llm_dec_pomdp.agents import Team
from llm_dec_pomdp.agents.judges import ModelJudge
from llm_dec_pomdp.benchmarks.setup import load_saved
from llm_dec_pomdp.evaluation.intervals import mean_interval
from llm_dec_pomdp.results.runs import read_run
from llm_dec_pomdp.training.checkpoint import find_team


def nats_per_token(team: Team, agent: str, texts: Sequence[str]) -> list[float]:
    """Return -log pi of each text under the policy of an agent, in nats per token."""
    judge = ModelJudge(team.members[agent], agent=agent)
    return [-likelihood.mean for likelihood in judge.log_likelihoods([""] * len(texts), texts)]


def probe(folder: Path, texts: Sequence[str]) -> dict[str, Any]:
    """Return the perplexities and the changes of the members of the team in a folder."""
    trained, untrained = load_saved(folder, True), load_saved(folder, False)
    found: dict[str, Any] = {}
    for agent in trained.members:
        before, after = (nats_per_token(team, agent, texts) for team in (untrained, trained))
        change = mean_interval([late - early for early, late in zip(before, after, strict=True)])
        found[agent] = {
            "before": math.exp(fmean(before)),
            "after": math.exp(fmean(after)),
            "change": dataclasses.asdict(change),
        }
    return found


def table(probes: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return the rows of a Markdown table: the change of each method over seeds, and its difference from the first."""
    changes: dict[str, dict[int, float]] = {}
    for cell in probes.values():
        change = fmean(member["change"]["mean"] for member in cell["members"].values())
        changes.setdefault(cell["method"], {})[cell["seed"]] = change
    first = next(iter(changes.values()))
    rows = ["| method | change, nats per token | minus the first |", "|---|---|---|"]
    for method, by_seed in changes.items():
        differences = [change - first[seed] for seed, change in by_seed.items()] if by_seed is not first else []
        rows.append(f"| {method} | {over_seeds(list(by_seed.values()), 2)} | {over_seeds(differences, 2)} |")
    return rows


def main() -> None:
    """Score the texts, and print the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="*", type=Path, metavar="RUN")
    parser.add_argument("--texts", type=Path, help="file of texts, one JSON object per line")
    parser.add_argument("--field", help="field of the text")
    parser.add_argument("--items", type=int, default=64, help="number of texts, from the start of the file")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    parser.add_argument("--table", type=Path, help="only print the table of this file")
    arguments = parser.parse_args()
    if arguments.table:
        print("\n".join(table(raw_data.read(arguments.table))))
        return
    if not arguments.runs or not arguments.texts or not arguments.field:
        parser.error("give RUN, --texts and --field, or --table")
    with arguments.texts.open(encoding="utf-8") as lines:
        texts = [json.loads(line)[arguments.field] for line in itertools.islice(lines, arguments.items)]
    found: dict[str, Any] = {}
    for run in arguments.runs:
        for entry in read_run(run).entries:
            if entry.result is None:
                continue
            place = f"{run.name}/{entry.folder.name}"
            members = probe(find_team(entry.folder), texts)
            found[place] = {"method": entry.method, "seed": entry.cell.seed, "members": members}
            for agent, values in members.items():
                low, mean, high = (values["change"][key] for key in ("low", "mean", "high"))
                print(
                    f"{place}, {agent}: perplexity {values['before']:.2f} before, {values['after']:.2f} after; "
                    f"{mean:+.3f} nats per token ({low:+.3f} to {high:+.3f})",
                    flush=True,
                )
    if arguments.json:
        raw_data.write(arguments.json, found)


if __name__ == "__main__":
    main()
