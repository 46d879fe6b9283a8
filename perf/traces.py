"""Traces: the time and the memory of writing 10,000 episodes, against plain JSON lines of the same texts.

    python perf/traces.py [--episodes N]

A few episodes are played by a team without a model and then written again and again under other seeds, so that only
writing is timed. Plain JSON is a line per episode with the texts that agents were told and said, encoded by `json`.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import resource
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from llm_dec_pomdp import make
from llm_dec_pomdp.agents import Sampling, Scripted
from llm_dec_pomdp.envs.base import TextDecPOMDP
from llm_dec_pomdp.envs.wrappers import with_protocol
from llm_dec_pomdp.rollout import Trajectories
from llm_dec_pomdp.storage.files import fsync
from llm_dec_pomdp.traces import Header, from_episode, read, validate, write
from llm_dec_pomdp.types import Episode

WORKLOADS = (("tldr-v0", "parallel"), ("humaneval-v0", "discussion"), ("research-v0", "parallel"))


def episodes_of(env: TextDecPOMDP, count: int) -> list[Episode]:
    """Episodes of as many tasks: an optimal team where there is one, else agents that repeat 400 characters."""
    say = env.task.optimal_action if env.hierarchical else lambda agent, history: history[-1].text[:400]  # type: ignore[attr-defined]
    ids = [item.id for item in env.items[:count]]
    groups = Trajectories("own").play(env, Scripted(say), ids, list(range(len(ids))), Sampling())
    return [group.episodes[0] for group in groups]


def plain(episode: Episode) -> str:
    """The texts alone."""
    turns = [[dict(turn.observations), {a: c.text for a, c in turn.actions.items()}] for turn in episode.turns]
    return json.dumps({"task": episode.item_id, "seed": episode.seed, "turns": turns})


def timed(work: Callable[[], object]) -> float:
    """Seconds of processor time."""
    started = time.process_time()
    work()
    return time.process_time() - started


def measure(env_id: str, protocol: str, count: int) -> None:
    """Print a line of numbers."""
    env = with_protocol(make(env_id), protocol)
    items = {item.id: item for item in env.items}
    header = Header.of(env, env_id, protocol=protocol)
    episodes = episodes_of(env, 20)

    def again() -> Iterator[Episode]:
        return (dataclasses.replace(episodes[n % len(episodes)], seed=n) for n in range(count))

    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)

        def write_plain() -> None:
            with (place / "plain.jsonl").open("w") as file:
                file.writelines(plain(episode) + "\n" for episode in again())
            fsync(place / "plain.jsonl")

        base = timed(write_plain)
        print(
            f"{env_id} {protocol}: {count} episodes, plain JSON {base:.2f} s, "
            f"{(place / 'plain.jsonl').stat().st_size / 1e6:.0f} MB"
        )
        for texts in ("inline", "hashed", "none"):
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            path = place / f"{texts}.jsonl"
            traces = (from_episode(episode, header, items[episode.item_id]) for episode in again())
            seconds = timed(lambda traces=traces, path=path, texts=texts: write(traces, path, texts))  # type: ignore[misc]
            grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
            size = sum(p.stat().st_size for p in place.glob(f"{texts}.*")) / 1e6
            print(
                f"  {texts:7}{seconds:7.2f} s, {seconds / base:5.2f} x plain, {size:6.0f} MB, memory + {grown:.0f} MB"
            )
        first = [trace for trace, _ in zip(read(place / "inline.jsonl"), range(200), strict=False)]
        checked = timed(lambda: [validate(trace) for trace in first])
        print(f"  validate: {checked / len(first) * 1000:.1f} ms per trace")


def main() -> None:
    """Measure every workload."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=10_000)
    options = parser.parse_args()
    for env_id, protocol in WORKLOADS:
        measure(env_id, protocol, options.episodes)


if __name__ == "__main__":
    main()
