"""Rate the players of Kuhn poker that `self_play.py` trained, and compare the ratings with their exploitability.

    python research/self_play_elo.py --out research/data/selfplay_elo.json.xz

The teams are the averages of the second half of the updates of seed 0 for each setting, with the uniform strategy and
an equilibrium. All play against all in both roles, with 20 games for each of the six deals.

Prediction, written before the run: the rank correlation of rating and exploitability is below -0.5, and the equilibrium
does not have the highest rating, since it gains little from weak players.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import raw_data
from self_play import key_of

from llm_dec_pomdp import crossplay, make
from llm_dec_pomdp.agents.base import Policy, Request, Sampling, Team
from llm_dec_pomdp.contrib.games.self_play import History, Strategy
from llm_dec_pomdp.seeding import generator
from llm_dec_pomdp.types import Completion

GAME, SAMPLES = "kuhn-v0", 20


class Player(Policy):
    """A policy that samples from a strategy."""

    def __init__(self, strategy: Strategy) -> None:
        self.strategy = strategy

    def generate(self, requests: Sequence[Request], sampling: Sampling) -> list[list[Completion]]:
        """Return one action per seed."""
        answers: list[list[Completion]] = []
        for request in requests:
            shares = self.strategy(request.agent, tuple(request.history))
            texts, chances = list(shares), [*shares.values()]
            total = sum(chances)
            drawn = [
                generator(seed, "player").choice(len(texts), p=[c / total for c in chances]) for seed in request.seeds
            ]
            answers.append([Completion(texts[int(place)]) for place in drawn])
        return answers


def main() -> None:
    """Play, write the file, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    env: Any = make(GAME)
    rows = [row for row in raw_data.read(raw_data.DATA / "selfplay_settings.json.xz") if row["game"] == GAME]

    def uniform(agent: str, history: History) -> Mapping[str, float]:
        return dict.fromkeys(env.choices(agent), 0.5)

    def recorded(held: Mapping[str, Mapping[str, float]], agent: str, history: History) -> Mapping[str, float]:
        return held[key_of(agent, history)]

    strategies: dict[str, Strategy] = {"uniform": uniform, "equilibrium": env.equilibrium}
    for row in rows:
        strategies[row["setting"]] = partial(recorded, row["seeds"][0]["strategy"])
    teams = [Team(dict.fromkeys(env.possible_agents, Player(strategy))) for strategy in strategies.values()]
    found = crossplay(teams, env, samples=SAMPLES)
    assert found.elo is not None
    distances = [env.exploitability(strategy) for strategy in strategies.values()]
    ratings = [rating.mean for rating in found.elo.ratings]
    order = np.array([ratings, distances]).argsort(axis=1)
    ranks = order.argsort(axis=1)  # there are no ties
    matrix: Any = np.corrcoef(ranks)
    correlation = float(matrix[0, 1])
    rated = sorted(zip(strategies, found.elo.ratings, distances, strict=True), key=lambda row: -row[1].mean)
    print("| player | rating | exploitability |\n|---|---|---|")
    for name, rating, distance in rated:
        print(f"| {name} | {rating.mean:.0f} ({rating.low:.0f} to {rating.high:.0f}) | {distance:.3f} |")
    first = found.elo.first
    print(f"first role {first.mean:.0f} ({first.low:.0f} to {first.high:.0f}); rank correlation {correlation:.2f}")
    players = [{"player": n, "rating": asdict(r), "exploitability": d} for n, r, d in rated]
    raw_data.write(options.out, {"players": players, "first": asdict(first), "rank_correlation": correlation})


if __name__ == "__main__":
    main()
