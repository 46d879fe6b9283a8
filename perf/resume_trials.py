"""Kill a training with SIGKILL at a random moment, resume it, and compare it with an uninterrupted training.

    python perf/resume_trials.py [--trials 20] [--learner NAME ...] [--tokens 48] [--group 4] [--seed 0] [--json]

Each trial runs the command `train` in its own process with the built-in model, over more than two epochs of a small
task set. The uninterrupted run evaluates before and after training, and the killed run also after every second step.
Two runs are equal if these are equal: weights, optimizer states, metrics of every step, fingerprints of all
completions, and the actions in evaluations. The exit code is 1 if a trial differs.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

os.environ |= {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}  # forks need no threads

import torch

from llm_dec_pomdp.agents.io import models  # noqa: F401  # loaded once, before the forks
from llm_dec_pomdp.algorithms.registration import algorithms, find_algorithm
from llm_dec_pomdp.cli import app
from llm_dec_pomdp.envs.registration import make
from llm_dec_pomdp.episodes import Trace, read
from llm_dec_pomdp.episodes.files import last_evaluation
from llm_dec_pomdp.report import text as report  # noqa: F401
from llm_dec_pomdp.storage.files import MANIFEST
from llm_dec_pomdp.storage.runfolder import STATUS, read_lines

POSTS = [item.prompt for item in make("tldr-v0", split="train").items[:5]]
STEPS = 6


def learners() -> list[str]:
    """Return the names of all registered learners."""
    return [name for name in algorithms if find_algorithm(name).load().learns()]


def options(algorithm: str, folder: Path, tokens: int, group: int) -> list[str]:
    """Return the options of a training that samples 12 tasks out of 5, with a checkpoint every second step."""
    tasks = folder / "posts.jsonl"
    if not tasks.exists():
        tasks.write_text("".join(json.dumps({"id": str(i), "prompt": post}) + "\n" for i, post in enumerate(POSTS)))
    size = {
        "--steps": STEPS,
        "--prompts": 2,
        "--group-size": group,
        "--max-new-tokens": tokens,
        "--items": 2,
        "--save-every": 2,
    }
    texts = ["--algorithm", algorithm, "--tasks", str(tasks), "--eval-tasks", str(tasks), "--device", "cpu"]
    settings = ["--set", "learning_rate=1e-3", "--set", "micro_batch=4"]
    return ["tldr-v0", *texts, *settings, *(str(part) for pair in size.items() for part in pair)]


def start(arguments: list[str], log: Path) -> int:
    """Run a command in a forked process, and return its process id."""
    pid = os.fork()
    if pid:
        return pid
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(output, 1)
    os.dup2(output, 2)
    torch.set_num_threads(1)
    code = 1
    try:
        app(arguments, standalone_mode=True)
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    finally:
        os._exit(code)


def finish(pid: int) -> int:
    """Wait for a process and return its exit code, -9 if it was killed."""
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def outcome(folder: Path) -> dict[str, Any]:
    """Return all parts of a finished run that have to be equal."""
    (place,) = folder.glob("cells/*")
    manifest = json.loads((place / "checkpoints" / f"step-{STEPS:06d}" / MANIFEST).read_text())["files"]
    steps = [{k: v for k, v in line.items() if "seconds" not in k} for line in read_lines(place / "train.jsonl")]
    last = last_evaluation(place)
    assert last is not None
    return {
        "tensors": {name: file["sha256"] for name, file in manifest.items() if name != "checkpoint.json"},
        "steps": steps,
        "texts": [_without_times(trace) for trace in read(last)],
    }


def _without_times(trace: Trace) -> dict[str, Any]:
    """Return an evaluated episode without the sampling times."""
    events = [{name: value for name, value in e.items() if name not in ("t", "seconds")} for e in trace["events"]]
    return {**trace, "events": events, "costs": {**trace["costs"], "wall_clock_s": 0.0}}


def trial(arguments: list[str], folder: Path, seconds: float) -> int:
    """Start a training, kill it after some seconds, and resume it.

    Returns:
        The step from which it resumed; -1 if it finished before the kill.
    """
    arguments = ["train", *arguments, "--eval-every", "2"]
    log = folder.with_suffix(".log")
    pid = start([*arguments, "--out", str(folder)], log)
    time.sleep(seconds)
    os.kill(pid, signal.SIGKILL)
    if finish(pid) != -signal.SIGKILL:
        return -1
    saved = sorted(folder.glob("cells/*/checkpoints/step-*"))
    if any(folder.glob("cells/*/cell.json")):
        arguments = ["train"]  # the folder stores the other options
    again = ["--resume", str(folder)] if (folder / STATUS).exists() else ["--out", str(folder)]
    code = finish(start([*arguments, *again], log))
    if code != 0:
        raise RuntimeError(f"the resumed run ended with {code}: {log.read_text()[-2000:]}")
    return int(saved[-1].name.removeprefix("step-")) if saved else 0


def run_trials(
    count: int, seed: int, names: list[str], tokens: int, group: int, folder: Path
) -> Iterator[dict[str, Any]]:
    """Run all trials, with the learners in turn."""
    wanted: dict[str, tuple[dict[str, Any], float]] = {}
    for name in names[:count]:
        alone, started = folder / f"alone-{name}", time.perf_counter()
        log = folder / f"alone-{name}.log"
        code = finish(start(["train", *options(name, folder, tokens, group), "--out", str(alone)], log))
        if code != 0:
            raise RuntimeError(f"the run of {name} ended with {code}: {log.read_text()[-2000:]}")
        wanted[name] = outcome(alone), time.perf_counter() - started
        learnt = [step["number"] for step in wanted[name][0]["steps"] if not step["metrics"]["skipped"]]
        if len(learnt) < STEPS / 2:
            raise RuntimeError(f"{name} trained in steps {learnt} of {STEPS} only; increase --tokens or --group")
    draw = random.Random(seed)
    for number in range(count):
        name = names[number % len(names)]
        expected, duration = wanted[name]
        seconds = draw.uniform(0.05, duration)
        while (
            step := trial(options(name, folder, tokens, group), folder / f"trial-{number}", seconds)
        ) < 0:  # the first run was slower, since it included warm-up
            shutil.rmtree(folder / f"trial-{number}")
            seconds /= 2
        found = outcome(folder / f"trial-{number}")
        differing = [part for part in expected if expected[part] != found[part]]
        row = {"trial": number, "learner": name, "seconds": seconds, "from_step": step}
        yield {**row, "differs": differing}


def main() -> None:
    """Run the trials, and print the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--learner", nargs="*", help="names of learners (default: all registered)")
    parser.add_argument("--tokens", type=int, default=48, help="maximum; with fewer, grpo receives no reward")
    parser.add_argument("--group", type=int, default=4, help="episodes per task")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true", help="print one object")
    arguments = parser.parse_args()
    names = arguments.learner or learners()
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        for row in run_trials(arguments.trials, arguments.seed, names, arguments.tokens, arguments.group, Path(folder)):
            rows.append(row)
            if not arguments.json:
                end = "equal" if not row["differs"] else f"DIFFERS in {', '.join(row['differs'])}"
                description = f"killed after {row['seconds']:5.2f} s, went on from step {row['from_step']}"
                print(f"{row['trial']:3}  {row['learner']:12} {description}: {end}", flush=True)
    equal = sum(not row["differs"] for row in rows)
    if arguments.json:
        print(json.dumps({"trials": len(rows), "equal": equal, "rows": rows}))
    else:
        print(f"{equal} of {len(rows)} equal")
    raise SystemExit(equal != len(rows))


if __name__ == "__main__":
    main()
