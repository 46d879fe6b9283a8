"""Teach SmolLM2 to think before it acts on dectiger-v0, and train it on.

    python research/think_first.py SmolLM2-135M-Instruct.Q4_1.gguf --out runs/think_first
    python research/think_first.py smollm2 --out runs/think_vllm --vllm http://127.0.0.1:8000

With `--vllm` a server of vLLM generates all texts; start it with `llm-dec-pomdp engine vllm smollm2` (a folder).

The teacher is `script:optimal`, which first writes the last line of its observation as a thought. The chat template of
SmolLM2 knows no thoughts, so `thinking` names the tags. The script prints how many actions of a team have a thought,
and the return: untrained, after imitation, and after MAGRPO.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from llm_dec_pomdp import collect, load_team, make, train
from llm_dec_pomdp.agents import Sampling, Scripted, Team
from llm_dec_pomdp.envs.base import TextDecPOMDP
from llm_dec_pomdp.episodes import Header, TraceWriter, from_episode
from llm_dec_pomdp.types import Message

TAGS = {"open": "<think>", "close": "</think>"}
SAMPLING = Sampling(max_new_tokens=64, temperature=0.7)


class Thoughts(NamedTuple):
    """Shares in % of all actions: with a thought, with an empty answer; and the mean return in %."""

    thoughts: float
    empty: float
    returns: float


def measured(team: Team, env: TextDecPOMDP, episodes: int) -> Thoughts:
    """Play episodes, and count their thoughts."""
    played = [e for group in collect(team, env, samples=episodes, sampling=SAMPLING, seed=1) for e in group.episodes]
    actions = [c for e in played for turn in e.turns for c in turn.actions.values()]
    share = 100 / len(actions)
    percent = [env.facts.score_scale.percent(e.final.total) for e in played if e.final]
    empty = sum(not c.text.strip() for c in actions)
    return Thoughts(share * sum(bool(c.thought) for c in actions), share * empty, sum(percent) / len(percent))


def teach(env: TextDecPOMDP, path: Path, episodes: int) -> None:
    """Write traces of a teacher that thinks first."""
    script = env.script("optimal")

    def say(agent: str, history: Sequence[Message]) -> str:
        seen = history[-1].text.strip().splitlines()[-1]
        return f"{TAGS['open']}{seen}{TAGS['close']}{script(agent, history)}"

    header = Header.of(env, "dectiger-v0", options={"max_turns": env.max_turns}, models="script:optimal")
    [item] = env.items
    with TraceWriter(path) as writer:
        for group in collect(Scripted(say), env, samples=episodes):
            for episode in group.episodes:
                writer.write(from_episode(episode, header, item))


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--out", type=Path, required=True, help="folder of the teacher's traces")
    parser.add_argument("--vllm", help="address of a vLLM server with the same model, which generates the texts")
    parser.add_argument("--dtype", default="bfloat16", help="float32 is faster on a CPU without bfloat16")
    parser.add_argument("--imitation", type=int, default=16, help="updates of imitation")
    parser.add_argument("--updates", type=int, default=6, help="updates of MAGRPO")
    parser.add_argument("--episodes", type=int, default=16, help="episodes of an evaluation")
    given = parser.parse_args(arguments)
    env = make("dectiger-v0", max_turns=2)
    given.out.mkdir(parents=True, exist_ok=True)
    taught = given.out / "teacher.jsonl"
    teach(env, taught, 32)
    served = {"kind": "vllm", "url": given.vllm, "model": "base", "adapters": str(given.out / "adapters")}
    engine = {"engine": served} if given.vllm else {}
    team = load_team(env, given.model, sharing="lora", dtype=given.dtype, thinking=TAGS, **engine)
    print("team            thoughts %  empty %  return %")
    print("untrained      {:10.1f} {:8.1f} {:9.1f}".format(*measured(team, env, given.episodes)), flush=True)
    train(
        team,
        env,
        "imitation",
        steps=given.imitation,
        prompts_per_step=1,
        group_size=4,
        sampling=SAMPLING,
        source=str(taught),
        learning_rate=1e-3,
    )
    print("imitation      {:10.1f} {:8.1f} {:9.1f}".format(*measured(team, env, given.episodes)), flush=True)
    train(
        team,
        env,
        "magrpo",
        steps=given.updates,
        prompts_per_step=1,
        group_size=8,
        sampling=SAMPLING,
        learning_rate=1e-4,
    )
    print("and MAGRPO     {:10.1f} {:8.1f} {:9.1f}".format(*measured(team, env, given.episodes)), flush=True)


if __name__ == "__main__":
    main()
