"""Two tasks in numbers, for the examples of this folder; how random play and the best do there; and what was learnt.

`TASKS[name]()` is a PettingZoo environment: `tldr-v0`, where each of two agents chooses how many of the first words of
a post it gives, and `dectiger-v0` at horizon 3, where they see all that they were told and said. The returns of the
episodes that a library plays in training are noted as they end, in this process.
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
RETURNS: list[float] = []  # of the episodes that have ended


class Noted(NumericWrapper):
    """Notes the return of every episode, and pays in units of `unit`, since networks learn numbers near 1 best.

    Libraries may copy an environment, so the list is of the module.
    """

    earned = 0.0

    def __init__(self, env: NumericWrapper, unit: float) -> None:
        super().__init__(env)
        self.unit = unit

    def step(self, actions: dict[str, int]) -> NumericStep:
        """As inside."""
        seen, rewards, *rest = super().step(actions)
        self.earned += next(iter(rewards.values()))
        if not self.agents:
            RETURNS.append(self.earned)
            self.earned = 0.0
        return seen, {agent: reward / self.unit for agent, reward in rewards.items()}, *rest


def first_words(agent: str, text: str) -> list[str]:
    """What can be said: the first words of the post, fewer or more of them."""
    words = text.partition("POST: ")[2].rpartition("\n\n")[0].split()
    return [" ".join(words[:count]) for count in WORDS]


def tldr() -> NumericWrapper:
    """The summary and the elaboration are the beginning of the post; what is asked for stands at the end."""
    env = DiscreteMenu(llm_dec_pomdp.make("tldr-v0"), first_words, n=len(WORDS))
    return Noted(ByteObservation(env, 64, keep="end", dtype="float32"), unit=1.0)


def dectiger() -> NumericWrapper:
    """What was told and said at all turns fits into the last 192 bytes."""
    env = llm_dec_pomdp.make("dectiger-v0", max_turns=3)
    menus = {agent: env.choices(agent) for agent in env.possible_agents}
    env = ByteObservation(DiscreteMenu(env, menus), 192, keep="end", dtype="float32", history=True)
    return Noted(env, unit=50.0)


TASKS = {"tldr-v0": tldr, "dectiger-v0": dectiger}


def bounds(task: str) -> tuple[float, float]:
    """The returns of random play and of the best: of the best pair of lengths for all posts, and of an optimal team."""
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
    """Print what the last tenth of the episodes earned, and add the run to a file: returns in 50 blocks of episodes."""
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
