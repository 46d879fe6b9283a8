"""Train tables on the games of docs/results/archive/payoffs.md, and compute their exact expected returns.

    python research/payoffs.py staghunt --out research/data/staghunt.json.xz

Each run trains one table per agent with updates of 4 tasks x 8 episodes and the learning rate 0.3. Prints a row for
each setting and learner with the mean return of the seeds in percent and its 95 % t interval. The file has every seed:
returns after every tenth update, and `env.measure` of 20 sampled episodes for each task. Returns are exact, except for
`incident`, whose returns are means over such episodes.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import raw_data
import torch

from llm_dec_pomdp import make
from llm_dec_pomdp.agents.base import Sampling, Team
from llm_dec_pomdp.agents.scripted import Scripted
from llm_dec_pomdp.agents.table import Table, number_of
from llm_dec_pomdp.algorithms.registration import build_algorithm
from llm_dec_pomdp.contrib.games.self_play import Strategy, value
from llm_dec_pomdp.evaluation.intervals import mean_interval
from llm_dec_pomdp.training.loop import TrainerConfig, train
from llm_dec_pomdp.types import Group, Message

CONTROL = "magrpo_shuffled"
LEARNERS = ("magrpo", "marloo", "iac", CONTROL)
EVERY = 10  # updates between two points of a curve
ROWS = 1024  # greatest number of histories of an agent
SAMPLING = Sampling(max_new_tokens=1)


class Setting(NamedTuple):
    """An environment with its options.

    Attributes:
        label: Name of the setting.
        game: Id of the environment.
        options: Its options.
        returns: Agents whose mean expected return is the return of the team; () to estimate it by sampling.
        scripts: The scripted team of each agent that does not learn.
    """

    label: str
    game: str
    options: Mapping[str, Any]
    returns: Sequence[str]
    scripts: Mapping[str, str] = {}


BOTH = ("agent_0", "agent_1")
SETTINGS: Mapping[str, Sequence[Setting]] = {
    "staghunt": [
        Setting(f"{rewards}, hare {hare}", "staghunt-v0", {"rewards": rewards, "hare": hare}, BOTH)
        for rewards in ("joint", "individual")
        for hare in (0.2, 0.5, 0.8)
    ],
    "verify": [Setting(rewards, "verify-v0", {"rewards": rewards}, ["agent_1"]) for rewards in ("joint", "role")],
    "debate": [
        Setting(f"{evidence}, {who} trained", "debate-v0", {"evidence": evidence}, ["agent_2"], scripts)
        for evidence in ("claimed", "shown")
        for who, scripts in {
            "judge": {"agent_0": "optimal", "agent_1": "optimal"},
            "debaters": {"agent_2": "advocates"},
            "all": dict[str, str](),
        }.items()
    ],
    "incident": [Setting("three responders", "incident-v0", {}, ())],
}
UPDATES = {"staghunt": 40, "verify": 60, "debate": 40, "incident": 60}


def strategy_of(members: Mapping[str, Any]) -> Strategy:
    """Return the probability of each text in a table's menu, or the text of a script."""

    def chances(agent: str, history: Sequence[Message]) -> Mapping[str, float]:
        member = members[agent]
        if not isinstance(member, Table):
            return {member(agent, history): 1.0}
        logits: Any = member.rows([number_of(history)])[0].detach()
        return dict(zip(member.menu, logits.softmax(-1).tolist(), strict=True))

    return chances


def run(setting: Setting, learner: str, updates: int, seed: int) -> dict[str, Any]:
    """Train a team; return its returns and properties in the format of `collect_results.py`."""
    env: Any = make(setting.game, **setting.options)
    scripts = {agent: env.script(name) for agent, name in setting.scripts.items()}
    members: dict[str, Any] = {
        agent: scripts.get(agent) or Table(env.choices(agent), ROWS) for agent in env.possible_agents
    }
    team = Team({agent: member if agent not in scripts else Scripted(member) for agent, member in members.items()})
    algorithm = build_algorithm(learner, {}, team, SAMPLING)
    strategy, curve = strategy_of(members), list[dict[str, Any]]()

    def episodes() -> Sequence[Group]:
        ids = [item.id for item in env.items]
        return algorithm.rollout.play(env, algorithm.policy, ids, [seed] * len(ids), SAMPLING, 20)

    def sampled_returns() -> list[float]:
        return [episode.total for group in episodes() for episode in group.episodes]

    def record(step: Any) -> None:
        if step is None or step.number % EVERY == 0:
            earned = fmean([value(env, strategy, agent) for agent in setting.returns] or sampled_returns())
            percent = env.facts.score_scale.percent(earned)
            curve.append({"step": step.number if step else 0, "return_percent": {"mean": percent}, "return": earned})

    record(None)
    train(algorithm, env, SAMPLING, TrainerConfig(steps=updates, prompts_per_step=4, group_size=8), seed, record)
    return {
        "cell": {
            "environment": {"id": setting.game, "label": setting.label, "options": dict(setting.options)},
            "method": {"name": learner, "label": "control" if learner == CONTROL else learner, "options": {}},
            "model": {"name": "builtin:table", "scripts": dict(setting.scripts)},
            "seed": seed,
        },
        "summary": {"return_percent": curve[-1]["return_percent"], "measured": env.measure(episodes())},
        "curve": curve,
    }


def shown(values: Sequence[float]) -> str:
    """Return a mean with its 95 % interval as text."""
    found = mean_interval(values)
    return f"{found.mean:.1f} ({found.low:.1f} to {found.high:.1f})"


def main() -> None:
    """Train, write the file, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=SETTINGS)
    parser.add_argument("--learners", nargs="+", default=LEARNERS)
    parser.add_argument("--seeds", nargs="+", type=int, default=range(5))
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    torch.set_num_threads(1)
    kept = list[dict[str, Any]]()
    print("| setting | learner | before, % | after, % | by seed | measured |\n|---|---|---|---|---|---|")
    for setting in SETTINGS[options.name]:
        for learner in options.learners:
            rows = [run(setting, learner, UPDATES[options.name], seed) for seed in options.seeds]
            kept += rows
            before, after = ([row["curve"][place]["return_percent"]["mean"] for row in rows] for place in (0, -1))
            found: dict[str, list[float]] = {}
            for columns in (columns for row in rows for columns in row["summary"]["measured"].values()):
                for column, number in columns.items():
                    found.setdefault(column, []).append(number)
            measured = ", ".join(f"{column} {fmean(numbers):.1f}" for column, numbers in found.items())
            by_seed = ", ".join(f"{number:.0f}" for number in after)
            label = rows[0]["cell"]["method"]["label"]
            print(
                f"| {setting.label} | {label} | {before[0]:.1f} | {shown(after)} | {by_seed} | {measured} |", flush=True
            )
            raw_data.write(options.out, kept)


if __name__ == "__main__":
    main()
