"""What tests of M-GRPO share: rollouts of a main agent that calls sub-agents, with given rewards."""

from __future__ import annotations

from collections.abc import Sequence

from models import sampled

from llm_dec_pomdp.types import Completion, Episode, Event, Group, Turn


def rollout(main: float, *subs: float | tuple[float, str], seed: int = 0) -> Episode:
    """Main calls a sub-agent for each reward (or reward and kind), all at once; each speaks once, and main answers."""
    agents = [f"agent_{number}" for number in range(1, len(subs) + 1)]
    pairs = [sub if isinstance(sub, tuple) else (sub, "sub") for sub in subs]
    spawns = tuple(Event("spawn", a, {"role": kind}) for a, (_, kind) in zip(agents, pairs, strict=True))
    paid = {"agent_0": main} | {agent: reward for agent, (reward, _) in zip(agents, pairs, strict=True)}
    unpaid = dict.fromkeys(paid, 0.0)
    texts: list[dict[str, Completion]] = [
        {"agent_0": sampled(0)},
        {a: sampled(1 if reward > 0.3 else 3) for a, (reward, _) in zip(agents, pairs, strict=True)},
        {"agent_0": sampled(2 if main else 3)},
    ]
    turns = (
        Turn({"agent_0": "?"}, texts[0], 0.0, rewards={"agent_0": 0.0}, events=spawns),
        *([Turn(dict.fromkeys(agents, "?"), texts[1], 0.0, rewards=unpaid)] if agents else []),
        Turn({"agent_0": "?"}, texts[2], main, rewards=paid),
    )
    return Episode("q", seed, turns, terminated=True)


def query(*rollouts: Episode, name: str = "q") -> Group:
    return Group(name, rollouts)


def rewards_of_subs(*rewards: Sequence[float]) -> Group:
    """A group in which main earns nothing and its sub-agents earn these, by rollout."""
    return query(*(rollout(0.0, *pairs, seed=k) for k, pairs in enumerate(rewards)))
