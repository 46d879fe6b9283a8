"""One question of research-v0 with the scripted optimal team: calls, reports and rewards, turn by turn.

python examples/research_episode.py
"""

from __future__ import annotations

import llm_dec_pomdp


def main() -> None:
    """Print an episode, turn by turn."""
    env = llm_dec_pomdp.make("research-v0")
    say = env.script("optimal")
    env.reset(seed=0, options={"task_id": "train/2/1"})
    print("question:", env.item.prompt)
    rewards: dict[str, float] = {}
    while env.agents:
        texts = {agent: say(agent, env.history(agent)) if env.asked(agent) else "" for agent in env.agents}
        print(f"\nturn {env.turn}")
        for agent, text in texts.items():
            if text:
                print(f"  {agent} ({env.role(agent)}) says  {text}")
        _, rewards, *_ = env.step(texts)
        for event in env.latest.transition.events:
            shown = "; ".join(f"{name}: {value.splitlines()[0]}" for name, value in event.details.items() if value)
            print(f"    [{event.kind}] {event.agent}  {shown}")
    print("\nrewards:", {agent: round(reward, 3) for agent, reward in rewards.items()})
    print("support, expert:", *(env.last_score.diagnostics[name] for name in ("support", "expert")))


if __name__ == "__main__":
    main()
