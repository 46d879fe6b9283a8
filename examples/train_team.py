"""Train a team of two on tldr-v0 with MAGRPO, on a laptop CPU and without a network.

python examples/train_team.py --steps 80        # less than a minute on two cores
"""

from __future__ import annotations

import argparse

import llm_dec_pomdp


def main() -> None:
    """Evaluate, train, evaluate again, and print one joint action."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=80)
    parser.add_argument("--posts", type=int, default=30, help="number of test posts for the evaluation")
    steps, posts = vars(parser.parse_args()).values()

    train_env = llm_dec_pomdp.make("tldr-v0", split="train")
    test_env = llm_dec_pomdp.make("tldr-v0", split="test")
    team = llm_dec_pomdp.load_team(train_env)  # one policy per agent, which copies sentences

    print("before:", llm_dec_pomdp.evaluate(team, test_env, items=posts))
    llm_dec_pomdp.train(
        team,
        train_env,
        "magrpo",
        steps=steps,
        on_step=lambda step: print(f"step {step.number:3}  return {step.return_percent:.1f} %"),
    )
    print("after: ", llm_dec_pomdp.evaluate(team, test_env, items=posts))

    observations, _ = test_env.reset(seed=0)
    for agent, text in team.act(observations, llm_dec_pomdp.Sampling()).items():
        print(f"\n{test_env.role(agent)}: {text}")


if __name__ == "__main__":
    main()
