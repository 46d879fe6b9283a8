"""Measure the time until commands of the command line answer.

    python perf/startup.py [--before PYTHON] [--bench] [--json]

With `--before`, the same commands also run in turns in another interpreter, for example one with an older release.
Seconds are minima over the rounds, of processor time or of wall time until the answer.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence

ROUNDS = 3
ANSWERS = {
    "--help": ["--help"],
    "list": ["list"],
    "a task file that is not there": ["train", "tldr-v0", "--tasks", "none.jsonl"],
    "a split that does not exist": ["eval", "tldr-v0", "--split", "tset"],
    "a report of no run": ["report", "nowhere"],
    "a model that is nowhere": ["eval", "tldr-v0", "--model", "modles/tiny"],
}


def command(python: str, arguments: Sequence[str]) -> list[str]:
    """Return the command for an interpreter."""
    return [python, "-c", "from llm_dec_pomdp.cli import main; main()", *arguments]


def run(python: str, arguments: Sequence[str]) -> dict[str, float]:
    """Return the seconds of processor time and of wall time of a command."""
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command(python, arguments), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    wall, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    return {"processor": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, "wall": wall}


def first_question(python: str) -> dict[str, float]:
    """Return the seconds until `play` asks for the first action."""
    started = time.perf_counter()
    arguments = command(python, ["play", "tldr-v0", "--role", "elaboration"])
    pipe = subprocess.PIPE
    with subprocess.Popen(arguments, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        while b"your text" not in (line := process.stdout.readline()):
            if not line:
                raise RuntimeError(f"{python}: `play` did not ask for an action; run it by hand to see the reason")
        asked = time.perf_counter() - started
        process.kill()
    return {"wall": asked}


def measures(bench: bool) -> dict[str, Callable[[str], dict[str, float]]]:
    """Return the functions that measure, by name."""
    timed: dict[str, Callable[[str], dict[str, float]]] = {
        name: lambda python, arguments=arguments: run(python, arguments) for name, arguments in ANSWERS.items()
    }
    timed["the first question of play"] = first_question
    if bench:
        timed["bench quick"] = lambda python: run(python, ["bench", "quick"])
    return timed


def main() -> None:
    """Measure and print a table, or one JSON document."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", help="another interpreter to compare with")
    parser.add_argument("--bench", action="store_true", help="also measure `bench quick` once")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    pythons = {**({"before": options.before} if options.before else {}), "now": sys.executable}
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # compiled modules, as in an installation
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        rows: dict[str, dict[str, float]] = {}
        for name, measure in measures(options.bench).items():
            rounds = 1 if "bench" in name else ROUNDS
            times = [{who: measure(python) for who, python in pythons.items()} for _ in range(rounds)]
            for clock in times[0]["now"]:
                rows[f"{name}: {clock}"] = {who: min(each[who][clock] for each in times) for who in pythons}
        os.chdir("/")
    if options.json:
        print(json.dumps(rows, indent=1))
        return
    for name, row in rows.items():
        ratio = f"{row['before'] / row['now']:8.1f}x" if options.before else ""
        print(f"{name:48}" + "".join(f"{who} {seconds:7.2f} s  " for who, seconds in row.items()) + ratio)


if __name__ == "__main__":
    main()
