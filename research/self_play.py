# pyright: basic
"""Train tables on pennies-v0 and kuhn-v0 by self-play, and compute their exact exploitability.

    python research/self_play.py [--games kuhn-v0] [--rows entropy role] --out research/data/selfplay_settings.json.xz

Prints a row for each game and setting. Three objects are measured after the training of each seed:

| object | strategy |
|---|---|
| last | the policies after the last update |
| mean | the average of the policies after each update |
| half | the average over the second half of the updates |

An average weights the action probabilities after a history by the agent's own probability of reaching it, so that it is
the strategy of a player who samples one of the policies before each game. Further columns: the standard deviation of
the exploitability of single policies over the second half of the updates, and the mean norm of the gradient. All
columns are means over the seeds with the lowest and the highest. The file has every seed.

Settings: learning rate 0.03, 600 updates of eight episodes per deal, advantage `leave_one_out`. `entropy` adds an
entropy bonus of 0.15, and the settings after it have it too. `annealed` has three stages in which learning rate and
bonus fall. `last 10` plays half of the groups against one of the last ten policies that were kept, one after every five
updates. The settings were chosen with a simulation of these updates in numpy, before any run of these seeds.

Predictions, written before the runs:

1. kuhn-v0, annealed: last 0.03 to 0.07 and half below 0.05, as means over seeds.
2. kuhn-v0, entropy: half below 0.05, mean 0.04 to 0.06, last above 0.1.
3. kuhn-v0, slow: last above 0.2, half above 0.1.
4. kuhn-v0, role, raw and entropy: half within 0.015 of each other, and spread within a quarter. A role baseline does
   not stabilise Kuhn poker, because the values of its roles, -1/18 and 1/18, are close to 0.
5. kuhn-v0, std: half above 0.1. The scale of each deal differs, so that another game is learned.
6. kuhn-v0, last 10: half within 0.02 of entropy; the last policy is no better than with entropy.
7. kuhn-v0, controls: last above 0.35.
8. pennies-v0: slow has a last policy above 0.2 and a mean below 0.15; entropy and annealed have means below 0.05. The
   control with the bonus is as close, because the bonus alone leads to the uniform policy; the slow control is above
   0.15 in its mean.

After these runs the mean of pennies-v0 was 0.067 with `entropy` and 0.195 with `annealed`. `strong` was added for this
game: learning rate 0.01, bonus 0.5. Prediction before its run: last below 0.1 and mean below 0.05, as its control.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any

import raw_data
import torch

from llm_dec_pomdp import make
from llm_dec_pomdp.agents.base import Sampling, Team
from llm_dec_pomdp.agents.table import Table, number_of
from llm_dec_pomdp.algorithms.base import Algorithm
from llm_dec_pomdp.algorithms.registration import build_algorithm
from llm_dec_pomdp.algorithms.staged import Stage, Staged
from llm_dec_pomdp.options import PartnersConfig
from llm_dec_pomdp.training.loop import TrainerConfig, train
from llm_dec_pomdp.training.partners import WithPartners
from llm_dec_pomdp.types import Message

STEPS, GROUP, SEEDS = 600, 8, 5
SLOW = {"advantage": "leave_one_out", "learning_rate": 0.03}
ENTROPY = {**SLOW, "entropy": 0.15}
STRONG = {**SLOW, "learning_rate": 0.01, "entropy": 0.5}
STAGES = [{**SLOW, "learning_rate": rate, "entropy": e} for rate, e in ((0.03, 0.2), (0.01, 0.1), (0.003, 0.05))]
PARTNERS = PartnersConfig(pool=("self",), share=0.5, every=5, last=10)
SETTINGS: Mapping[str, tuple[str, Sequence[Mapping[str, Any]], PartnersConfig | None]] = {
    "slow": ("magrpo", [SLOW], None),
    "slow, control": ("magrpo_shuffled", [SLOW], None),
    "entropy": ("magrpo", [ENTROPY], None),
    "entropy, control": ("magrpo_shuffled", [ENTROPY], None),
    "role": ("magrpo", [{**ENTROPY, "advantage": "role"}], None),
    "role, control": ("magrpo_shuffled", [{**ENTROPY, "advantage": "role"}], None),
    "raw": ("magrpo", [{**ENTROPY, "advantage": "raw"}], None),
    "std": ("magrpo", [{**ENTROPY, "advantage": "std"}], None),
    "last 10": ("magrpo", [ENTROPY], PARTNERS),
    "annealed": ("magrpo", STAGES, None),
    "strong": ("magrpo", [STRONG], None),
    "strong, control": ("magrpo_shuffled", [STRONG], None),
}
Chances = Mapping[str, torch.Tensor]  # probabilities of the actions in every row of each agent's table


def learner_of(setting: str, team: Team, sampling: Sampling) -> Algorithm:
    """Return the learner of a setting, with its stages and partners."""
    name, stages, partners = SETTINGS[setting]
    learners = [build_algorithm(name, options, team, sampling) for options in stages]
    share = STEPS // len(stages)
    learner = Staged([Stage(one, share) for one in learners]) if len(learners) > 1 else learners[0]
    return WithPartners(learner, partners) if partners else learner


def measured(game: str, setting: str, seed: int) -> dict[str, Any]:
    """Train players from a seed; return the measurements of the module, and the average of the second half."""
    env: Any = make(game)
    tables = {agent: Table(env.choices(agent), rows=64) for agent in env.possible_agents}
    sampling = Sampling(max_new_tokens=1)
    iterates: list[Chances] = []
    norms: list[float] = []

    def keep(step: Any) -> None:
        iterates.append({agent: table.table.detach().softmax(-1) for agent, table in tables.items()})
        norms.append(step.metrics["grad_norm"])

    config = TrainerConfig(steps=STEPS, prompts_per_step=len(env.items), group_size=GROUP)
    train(learner_of(setting, Team(dict(tables)), sampling), env, sampling, config, seed, keep)
    last, mean = Average(tables, iterates[-1:]), Average(tables, iterates)
    half = Average(tables, iterates[STEPS // 2 :])
    found = {"last": last, "mean": mean, "half": half}
    singles = [env.exploitability(Average(tables, [one])) for one in iterates[STEPS // 2 :: 10]]
    return {
        **{name: env.exploitability(strategy) for name, strategy in found.items()},
        "spread": pstdev(singles),
        "grad_norm": fmean(norms),
        "strategy": {key_of(agent, history): shares for (agent, history), shares in half.known.items()},
    }


def key_of(agent: str, history: Sequence[Message]) -> str:
    """Return a history as one text, for the file."""
    return "\n".join([agent, *(message.text for message in history)])


class Average:
    """The strategy of players who sample one of several policies before each game.

    Args:
        tables: The tables.
        played: The action probabilities of the policies.

    Attributes:
        known: The strategy at the histories that were asked for.
    """

    def __init__(self, tables: Mapping[str, Table], played: Sequence[Chances]) -> None:
        self.tables, self.count = tables, len(played)
        self.stacked = {agent: torch.stack([chances[agent] for chances in played]) for agent in tables}
        self.known: dict[tuple[str, tuple[Message, ...]], dict[str, float]] = {}

    def after(self, agent: str, history: Sequence[Message]) -> torch.Tensor:
        """Return the probabilities of the actions after a history, shape (policies, actions)."""
        table = self.tables[agent]
        row = table._row_of.get(number_of(history))
        if row is None:
            return torch.full((self.count, len(table.menu)), 1 / len(table.menu))
        return self.stacked[agent][:, row]

    def __call__(self, agent: str, history: tuple[Message, ...]) -> dict[str, float]:
        """Return the probability of each action."""
        if (agent, history) not in self.known:
            menu, reach = self.tables[agent].menu, torch.ones(self.count)
            for place, message in enumerate(history):
                if message.role == "action":
                    reach = reach * self.after(agent, history[:place])[:, menu.index(message.text)]
            shares = (reach[:, None] * self.after(agent, history)).sum(0) / reach.sum()
            self.known[agent, history] = dict(zip(menu, shares.tolist(), strict=True))
        return self.known[agent, history]


COLUMNS = ("last", "mean", "half", "spread", "grad_norm")


def main() -> None:
    """Train, write the file, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--games", nargs="+", default=["pennies-v0", "kuhn-v0"])
    parser.add_argument("--rows", nargs="+", default=list(SETTINGS), choices=SETTINGS)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    kept: list[dict[str, Any]] = []
    torch.set_num_threads(1)
    print(f"| game | setting | {' | '.join(COLUMNS)} |\n|---|---|{'---|' * len(COLUMNS)}")
    for game in options.games:
        for setting in options.rows:
            found = [measured(game, setting, seed) for seed in range(SEEDS)]
            columns = ([seed[of] for seed in found] for of in COLUMNS)
            cells = (f"{fmean(v):.3f} ({min(v):.3f} to {max(v):.3f})" for v in columns)
            print(f"| {game} | {setting} | {' | '.join(cells)} |", flush=True)
            kept.append({"game": game, "setting": setting, "seeds": found})
            raw_data.write(options.out, kept)


if __name__ == "__main__":
    main()
