"""Random agents in every registered environment for a few episodes: the whole environment API in one file.

python examples/random_agents.py
"""

from __future__ import annotations

import llm_dec_pomdp
from llm_dec_pomdp.envs.registration import least_arguments


def play(env_id: str, episodes: int = 3) -> float:
    """Return the mean joint return of agents that act with random words."""
    env = llm_dec_pomdp.make(env_id, split="test", **least_arguments(env_id))
    total = 0.0
    for episode in range(episodes):
        env.reset(seed=episode)
        while env.agents:
            actions = {agent: env.action_space(agent).sample() for agent in env.agents}
            _, rewards, *_ = env.step(actions)
            total += next(iter(rewards.values()))
    env.close()
    return total / episodes


def main() -> None:
    """Print one line per environment."""
    for env_id in llm_dec_pomdp.registry:
        env = llm_dec_pomdp.make(env_id, **least_arguments(env_id))
        roles = " and ".join(env.role(agent) for agent in env.possible_agents)
        print(f"{env_id:18} {roles:26} random return {play(env_id):.2f} of {env.facts.score_range[1]:g}")


if __name__ == "__main__":
    main()
