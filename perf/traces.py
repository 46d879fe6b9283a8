"""Traces: the time and the memory of writing 10,000 episodes, against plain JSON, and their share of an evaluation.

    python perf/traces.py [--episodes N]

A few episodes are played by a team without a model and then written again and again under other seeds, so that only
writing is timed. Three things are written for comparison, a line of `json` per episode: the texts alone that agents
were told and said; all texts that a trace has, which are also the task, what tools were asked and answered, orders,
reports and notes; and the record that a run keeps, with tokens, scores and events.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import resource
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from llm_dec_pomdp import make
from llm_dec_pomdp.agents import Sampling, Scripted
from llm_dec_pomdp.benchmarks.cell import evaluate
from llm_dec_pomdp.benchmarks.progress import Silent
from llm_dec_pomdp.benchmarks.records import episode_record
from llm_dec_pomdp.benchmarks.setup import build_cell
from llm_dec_pomdp.benchmarks.suite import Suite
from llm_dec_pomdp.benchmarks.traces import keeping
from llm_dec_pomdp.envs.base import TextDecPOMDP
from llm_dec_pomdp.envs.wrappers import with_protocol
from llm_dec_pomdp.rollout import Trajectories
from llm_dec_pomdp.storage.files import fsync
from llm_dec_pomdp.traces import Header, TraceWriter, read, validate
from llm_dec_pomdp.traces.header import item_as_json
from llm_dec_pomdp.types import Episode, Group, TaskItem

WORKLOADS = (("tldr-v0", "parallel"), ("humaneval-v0", "discussion"), ("research-v0", "parallel"))


def episodes_of(env: TextDecPOMDP, count: int) -> list[Episode]:
    """Episodes of as many tasks: an optimal team where there is one, else agents that repeat 400 characters."""
    say = env.task.optimal_action if env.hierarchical else lambda agent, history: history[-1].text[:400]  # type: ignore[attr-defined]
    ids = [item.id for item in env.items[:count]]
    groups = Trajectories("own").play(env, Scripted(say), ids, list(range(len(ids))), Sampling())
    return [group.episodes[0] for group in groups]


def texts_alone(episode: Episode) -> dict[str, Any]:
    """What was told and said."""
    turns = [[dict(turn.observations), {a: c.text for a, c in turn.actions.items()}] for turn in episode.turns]
    return {"task": episode.item_id, "seed": episode.seed, "turns": turns}


def all_texts(episode: Episode, item: TaskItem) -> dict[str, Any]:
    """Whatever is a `content` in the trace."""
    more = [
        [
            [dict(event.details) for event in turn.events if event.kind != "read"],
            dict(turn.score.notes if turn.score else {}),
        ]
        for turn in episode.turns
    ]
    return {**texts_alone(episode), "task": item_as_json(item), "more": more}


def timed(work: Callable[[], object]) -> float:
    """Seconds of processor time."""
    started = time.process_time()
    work()
    return time.process_time() - started


def costs(place: Path, name: str, seconds: float, count: int) -> str:
    """Of an episode, and of a byte."""
    size = sum(path.stat().st_size for path in place.glob(f"{name}*"))
    return f"{seconds / count * 1e6:6.1f} us, {size / count:6.0f} bytes, {seconds / size * 1e9:5.1f} ns a byte"


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

        def write_plain(name: str, record: Callable[[Episode], Any]) -> None:
            with (place / name).open("w") as file:
                file.writelines(json.dumps(record(episode)) + "\n" for episode in again())
            fsync(place / name)

        def write_traces(texts: str) -> None:
            with TraceWriter(place / texts, texts) as writer:  # type: ignore[arg-type]
                for episode in again():
                    writer.write_episode(episode, header, items[episode.item_id])

        plain: dict[str, Callable[[Episode], Any]] = {
            "told and said": texts_alone,
            "all texts": lambda episode: all_texts(episode, items[episode.item_id]),
            "records": episode_record,
        }
        print(f"{env_id} {protocol}: {count} episodes")
        against = {name: timed(partial(write_plain, name, record)) for name, record in plain.items()}
        for name, seconds in against.items():
            print(f"  {name:14}{costs(place, name, seconds, count)}")
        for texts in ("inline", "hashed", "none"):
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            seconds = timed(partial(write_traces, texts))
            grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
            ratios = ", ".join(f"{seconds / other:.2f} x {name}" for name, other in against.items())
            print(f"  {texts:14}{costs(place, texts, seconds, count)}; {ratios}; memory + {grown:.0f} MB")
        first = [trace for trace, _ in zip(read(place / "inline"), range(200), strict=False)]
        checked = timed(lambda: [validate(trace) for trace in first])
        print(f"  validate: {checked / len(first) * 1000:.1f} ms per trace")


def share_of_evaluation(env_id: str, method: str, items: int) -> None:
    """Print what writing the traces of an evaluation takes of it, with token ids, as `bench --traces` does."""
    values = {
        "name": "traced",
        "methods": [{"name": method}],
        "environments": [{"id": env_id}],
        "evaluation": {"items": items},
    }
    [cell] = Suite.model_validate(values).cells()
    setup, spent = build_cell(cell), 0.0

    with tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        with keeping(cell, setup.eval_env, Path(folder), 0) as keep:

            def timed_keep(groups: Sequence[Group]) -> None:
                nonlocal spent
                before = time.perf_counter()
                keep(groups)
                spent += time.perf_counter() - before

            evaluate(cell, setup, Silent(), "", timed_keep)
            before = time.perf_counter()
        spent += time.perf_counter() - before
        whole = time.perf_counter() - started
    print(f"{env_id} {method}: evaluation {whole:.2f} s, of which traces {spent:.3f} s, {100 * spent / whole:.2f} %")


def main() -> None:
    """Measure every workload."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=10_000)
    options = parser.parse_args()
    for env_id, protocol in WORKLOADS:
        measure(env_id, protocol, options.episodes)
    for env_id, method in (("tldr-v0", "concat"), ("tldr-v0", "discussion"), ("keys-v0", "concat")):
        share_of_evaluation(env_id, method, 64)


if __name__ == "__main__":
    main()
