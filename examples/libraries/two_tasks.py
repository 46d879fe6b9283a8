"""Two numeric tasks for the examples of this folder, their random and best returns, and a report of training.

`TASKS[name]()` is a PettingZoo environment. In `tldr-v0`, each of two agents chooses how many of the first words of a
post its action has. In `dectiger-v0`, with horizon 3, agents observe their whole history. The returns of training
episodes are recorded in this process as the episodes end.
"""

from __future__ import annotations

import itertools
import json
import math
import sys
from importlib.metadata import version
from pathlib import Path

import numpy as np

import llm_dec_pomdp
from llm_dec_pomdp.envs.wrappers import ByteObservation, DiscreteMenu
from llm_dec_pomdp.envs.wrappers.numeric import NumericStep, NumericWrapper

WORDS = (8, 16, 32, 64, 96, 128)
RETURNS: list[float] = []  # returns of the finished episodes


class Noted(NumericWrapper):
    """A wrapper that records the return of every episode, and divides rewards by `unit` so that they are near 1.

    The list belongs to the module, since libraries may copy an environment.
    """

    earned = 0.0

    def __init__(self, env: NumericWrapper, unit: float) -> None:
        super().__init__(env)
        self.unit = unit

    def step(self, actions: dict[str, int]) -> NumericStep:
        """Play one joint action; see `NumericWrapper.step`."""
        seen, rewards, *rest = super().step(actions)
        self.earned += next(iter(rewards.values()))
        if not self.agents:
            RETURNS.append(self.earned)
            self.earned = 0.0
        return seen, {agent: reward / self.unit for agent, reward in rewards.items()}, *rest


def first_words(agent: str, text: str) -> list[str]:
    """Return the possible actions: different numbers of the first words of the post."""
    words = text.partition("POST: ")[2].rpartition("\n\n")[0].split()
    return [" ".join(words[:count]) for count in WORDS]


def tldr() -> NumericWrapper:
    """Return tldr-v0, where actions are beginnings of the post; observations keep the end, which has the request."""
    env = DiscreteMenu(llm_dec_pomdp.make("tldr-v0"), first_words, n=len(WORDS))
    return Noted(ByteObservation(env, 64, keep="end", dtype="float32"), unit=1.0)


def dectiger() -> NumericWrapper:
    """Return dectiger-v0 with horizon 3; the history of all turns fits into 192 bytes."""
    env = llm_dec_pomdp.make("dectiger-v0", max_turns=3)
    menus = {agent: env.choices(agent) for agent in env.possible_agents}
    env = ByteObservation(DiscreteMenu(env, menus), 192, keep="end", dtype="float32", history=True)
    return Noted(env, unit=50.0)


TASKS = {"tldr-v0": tldr, "dectiger-v0": dectiger}


def bounds(task: str) -> tuple[float, float]:
    """Return the return of random actions, and of the best pair of lengths (tldr-v0) or an optimal team."""
    if task == "dectiger-v0":
        env = llm_dec_pomdp.make(task, max_turns=3)
        return env.model.value_at_random(env.max_turns), env.facts.optimum
    env = llm_dec_pomdp.make(task)
    earned = np.zeros((len(WORDS), len(WORDS)))
    for item in env.items:
        observations, _ = env.reset(options={"task_id": item.id})
        texts = first_words("agent_0", observations["agent_0"])
        for pair in itertools.product(range(len(WORDS)), repeat=2):
            env.reset(options={"task_id": item.id})
            _, rewards, *_ = env.step(dict(zip(env.possible_agents, (texts[i] for i in pair), strict=True)))
            earned[pair] += rewards["agent_0"] / len(env.items)
    return float(earned.mean()), float(earned.max())


def finish(learner: str, packages: list[str], task: str, seed: int, out: Path | None) -> None:
    """Print the mean return of the last tenth of the episodes; add the run, with returns in 50 blocks, to a file."""
    blocks = [float(block.mean()) for block in np.array_split(np.array(RETURNS), 50)]
    last = math.fsum(RETURNS[-len(RETURNS) // 10 :]) / len(RETURNS[-len(RETURNS) // 10 :])
    low, high = bounds(task)
    print(
        f"{learner}, {task}, seed {seed}: {last:.2f} after {len(RETURNS)} episodes (random {low:.2f}, best {high:.2f})"
    )
    if out is None:
        return
    runs = json.loads(out.read_text(encoding="utf-8")) if out.exists() else []
    run = {"learner": learner, "task": task, "seed": seed, "episodes": len(RETURNS), "last": last, "returns": blocks}
    run |= {"random": low, "best": high, "command": " ".join(sys.argv)}
    run["versions"] = {name: version(name) for name in [*packages, "torch", "gymnasium", "pettingzoo"]}
    out.write_text(json.dumps([*runs, run], indent=1) + "\n", encoding="utf-8")
