"""Train a team of two on tldr-v0 with MAGRPO, on a laptop CPU and without a network.

python examples/train_team.py --steps 40        # about two minutes on two cores
"""

from __future__ import annotations

import argparse

import llm_dec_pomdp
from llm_dec_pomdp.agents import Sampling
from llm_dec_pomdp.agents.loading import load_team
from llm_dec_pomdp.algorithms.magrpo import MAGRPO, MAGRPOConfig
from llm_dec_pomdp.rollout import Trajectories
from llm_dec_pomdp.training import Step, TrainerConfig, train


def main() -> None:
    """Measure, train, measure again, and show one pair of texts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--posts", type=int, default=30, help="test posts to measure on")
    steps, posts = vars(parser.parse_args()).values()

    train_env = llm_dec_pomdp.make("tldr-v0", split="train")
    test_env = llm_dec_pomdp.make("tldr-v0", split="test")
    team = load_team(train_env.possible_agents, "builtin:tiny")  # a model of its own for each agent
    sampling = Sampling(max_new_tokens=128)

    def measure() -> float:
        ids = [item.id for item in test_env.items[:posts]]
        groups = Trajectories().play(test_env, team, ids, seeds=range(len(ids)), sampling=sampling)
        return 100 * sum(group.episodes[0].total for group in groups) / len(groups) / test_env.score_range[1]

    def show(step: Step) -> None:
        print(f"step {step.number:3}  return {step.return_percent:.1f} %  {step.seconds_update:.1f} s")

    print(f"before: {measure():.1f} % of the maximum on {posts} test posts")
    learner = MAGRPO(team, sampling, MAGRPOConfig(learning_rate=6e-4))
    train(learner, train_env, sampling, TrainerConfig(steps=steps), seed=0, on_step=show)
    print(f"after:  {measure():.1f} %")

    [group] = Trajectories().play(test_env, team, [test_env.items[0].id], seeds=[0], sampling=sampling)
    for agent, said in group.episodes[0].turns[0].actions.items():
        print(f"\n{test_env.role(agent)}: {said.text}")


if __name__ == "__main__":
    main()
