"""Compute the perplexity of the texts of a run under an untrained model, as a measure of fluency.

    python research/perplexity.py RUN [RUN ...] --model MODEL [--dtype bfloat16] [--json FILE]

Each action of the evaluations in a run is scored given the observation of its agent. The output has, per run and agent,
exp(-mean log pi per token) with a 95 % interval over actions (a t interval of the mean log-probability). Random words
have a high perplexity; repetitions have one near 1.
"""

from __future__ import annotations

import argparse
import dataclasses
import math
from collections.abc import Sequence
from pathlib import Path

import raw_data

from llm_dec_pomdp.agents.io.models import load_model
from llm_dec_pomdp.agents.judges import ModelJudge
from llm_dec_pomdp.agents.language_model.policy import LanguageModel
from llm_dec_pomdp.episodes import read, to_episode
from llm_dec_pomdp.episodes.files import evaluations
from llm_dec_pomdp.evaluation.intervals import Interval, mean_interval
from llm_dec_pomdp.results.runs import read_run
from llm_dec_pomdp.types import Message


def perplexity(judge: ModelJudge, pairs: Sequence[tuple[str, str]]) -> Interval:
    """Return the perplexity of texts with its interval over texts; empty texts are left out.

    Args:
        judge: Model that gives the log-probabilities.
        said: Pairs of an observation and the action of the agent.
    """
    found = judge.log_likelihoods(
        [(Message("observation", observation),) for observation, _ in pairs], [text for _, text in pairs]
    )
    mean = mean_interval([likelihood.mean for likelihood in found if likelihood.nats])
    return Interval(*(math.exp(-nats) for nats in (mean.mean, mean.high, mean.low)))


def by_agent(judge: ModelJudge, episodes: Path) -> dict[str, Interval]:
    """Return the perplexity of each agent's actions in a file of episodes."""
    pairs: dict[str, list[tuple[str, str]]] = {}
    for turn in (turn for episode in map(to_episode, read(episodes)) for turn in episode.turns):
        for agent, completion in turn.actions.items():
            pairs.setdefault(agent, []).append((turn.observations.get(agent, ""), completion.text))
    return {agent: perplexity(judge, texts) for agent, texts in pairs.items()}


def main() -> None:
    """Score the actions, and print the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN")
    parser.add_argument("--model", required=True, help="builtin:tiny, a folder, a .gguf file, or a hub id")
    parser.add_argument("--dtype", default="float32", help="dtype of the weights: float32 or bfloat16")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    arguments = parser.parse_args()
    judge = ModelJudge(LanguageModel(*load_model(arguments.model, dtype=arguments.dtype)), arguments.model)
    found: dict[str, dict[str, dict[str, float]]] = {}
    cells = [entry for run in arguments.runs for entry in read_run(run).entries if entry.result is not None]
    for path in (path for entry in cells for path in evaluations(entry.folder).values()):
        intervals = by_agent(judge, path)
        place = f"{path.parents[3].name}/{path.parents[1].name}/{path.stem}"
        found[place] = {agent: dataclasses.asdict(interval) for agent, interval in intervals.items()}
        shown = ", ".join(f"{a} {i.mean:.1f} ({i.low:.1f}-{i.high:.1f})" for a, i in intervals.items())
        print(f"{place}: {shown}", flush=True)
    if arguments.json:
        raw_data.write(arguments.json, found)


if __name__ == "__main__":
    main()
