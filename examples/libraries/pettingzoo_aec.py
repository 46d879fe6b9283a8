"""Independent tabular Q-learners, one per agent, which act one after the other through PettingZoo's AEC interface.

python examples/libraries/pettingzoo_aec.py tldr-v0     # or dectiger-v0; nothing to install
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import numpy as np
import typer
from pettingzoo.utils.conversions import parallel_to_aec
from two_tasks import TASKS, finish

UP, DOWN = 0.1, 0.02  # lower rates for decreases, since teammates explore (hysteretic Q-learning, 2007)


def main(task: str, steps: int = 60_000, seed: int = 0, out: Path | None = None) -> None:
    """Train for a number of joint actions, and print the result."""
    random = np.random.default_rng(seed)
    env = parallel_to_aec(TASKS[task]())
    env.reset(seed=seed)
    actions = env.action_space(env.possible_agents[0]).n
    values = defaultdict[tuple[str, bytes], np.ndarray](lambda: np.zeros(actions))
    done = 0
    while done < steps:
        exploring = max(0.0, 0.5 * (1 - done / (0.8 * steps)))
        chosen: list[tuple[np.ndarray, int, str, float]] = []
        earned = dict.fromkeys(env.possible_agents, 0.0)
        for agent in env.agent_iter():
            seen, reward, terminated, truncated, _ = env.last()  # the reward since the agent last acted
            earned[agent] += reward
            if terminated or truncated:
                env.step(None)
                continue
            row = values[agent, seen.tobytes()]
            action = int(random.integers(actions)) if random.random() < exploring else int(row.argmax())
            chosen.append((row, action, agent, earned[agent]))
            env.step(action)
        for row, action, agent, before in chosen:
            error = earned[agent] - before - row[action]
            row[action] += (UP if error > 0 else DOWN) * error
        done += len(chosen) // len(env.possible_agents)
        env.reset()
    finish("PettingZoo AEC, tables", ["pettingzoo"], task, seed, out)


if __name__ == "__main__":
    typer.run(main)
