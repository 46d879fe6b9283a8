"""Train a main agent and the sub-agents that it calls with M-GRPO on keys-v0, from random weights, on one core.

python examples/main_and_sub_agents.py --steps 200
"""

from __future__ import annotations

import argparse
from functools import partial

import llm_dec_pomdp
from llm_dec_pomdp.training import TrainingStep


def main() -> None:
    """Imitate well-formed actions, train on rewards, and print one episode."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=200)
    steps = parser.parse_args().steps

    env = llm_dec_pomdp.make("keys-v0", split="train")
    team = llm_dec_pomdp.load_team(env, "builtin:words")  # one model per role
    word = llm_dec_pomdp.Sampling(max_new_tokens=1)

    train = partial(llm_dec_pomdp.train, team, env, sampling=word, learning_rate=1e-3)
    train("imitation", source="script:uniform", steps=min(60, steps), prompts_per_step=16, group_size=1)

    def show(step: TrainingStep) -> None:
        if step.number % 10 == 0 or step.number == steps:
            measured = {name: round(step.metrics[name], 2) for name in ("d_mean", "sub_reward_mean", "surprisal_main")}
            print(f"step {step.number:3}  return {step.return_percent:5.1f} %  {measured}")

    train("mgrpo", entropy=0.05, d=3, steps=steps, group_size=16, seed=1, on_step=show)

    test = llm_dec_pomdp.make("keys-v0", split="test")
    [group] = llm_dec_pomdp.collect(team, test, items=1, sampling=word)
    for turn in group.episodes[0].turns:
        for agent, completion in turn.actions.items():
            print(f"{agent} ({test.role(agent)}) was told {turn.observations[agent]!r} and said {completion.text!r}")
        for event in turn.events:
            print(f"    {event.kind} {event.agent} {dict(event.details)}")


if __name__ == "__main__":
    main()
