"""Profile a training step: the shares of the model's arithmetic and of functions of this package.

    python perf/step_profile.py [--prompts 8] [--tokens 64] [--seconds 60] [--threads 1] [--least 1.0]

The step is the one of `vs_comlrl.py`: rollout and update of two agents with a model each, completions of full length. A
thread samples the stacks of the training threads every millisecond. A stack in the layers, the backward pass or the
optimizer counts as time of the model. Other stacks count for the innermost function of the package. The Markdown table
has a row for each entry above `--least` percent.
"""

from __future__ import annotations

import argparse
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from types import FrameType

import learner_speed
import torch

import llm_dec_pomdp

PACKAGE = Path(llm_dec_pomdp.__file__).parent
INTERVAL = 0.001
OUR_LAYERS = ("stepping.py", "attention.py")
WAITING = ("threading.py", "_base.py", "thread.py", "concurrency.py")


def place_of(frame: FrameType | None) -> tuple[bool, str] | None:
    """Return whether a stack is in the model's arithmetic, and the part of the model or the function of the package.

    The result is None if the stack waits or has no function of the package.
    """
    stack: list[tuple[Path, str]] = []  # from the innermost frame outwards
    while frame is not None:
        stack.append((Path(frame.f_code.co_filename), frame.f_code.co_qualname))
        frame = frame.f_back
    inside = [(path.relative_to(PACKAGE), function) for path, function in stack if path.is_relative_to(PACKAGE)]
    if not inside or stack[0][0].name in WAITING:
        return None
    if any(path.parent.name == "optim" for path, _ in stack):
        return True, "optimizer"
    if any("_engine_run_backward" in function for _, function in stack):
        return True, "backward pass"
    path, function = inside[0]
    if path.name in OUR_LAYERS or any(function.endswith("._call_impl") for _, function in stack):
        return True, "layers, drawing" if any(path.name == "decoding.py" for path, _ in inside) else "layers, reading"
    if path.name == "logprobs.py":
        return True, "output layer, reading"
    return False, f"`{path}`, `{function}`"


def measure(given: argparse.Namespace) -> Counter[tuple[bool, str]]:
    """Return the seconds of each place."""
    torch.set_num_threads(given.threads)
    steps = learner_speed.our_steps("magrpo", given.prompts, given.tokens)
    steps()
    seconds, done = Counter[tuple[bool, str]](), threading.Event()

    def watch() -> None:
        last = time.perf_counter()
        while not done.wait(INTERVAL):
            frames = [frame for thread, frame in sys._current_frames().items() if thread != threading.get_ident()]
            places = [place for place in map(place_of, frames) if place]
            now = time.perf_counter()
            for place in places:
                seconds[place] += now - last
            last = now

    sys.setswitchinterval(INTERVAL / 2)
    watcher = threading.Thread(target=watch)
    watcher.start()
    end = time.perf_counter() + given.seconds
    while time.perf_counter() < end:
        steps()
    done.set()
    watcher.join()
    return seconds


def main() -> None:
    """Measure, and print the table."""
    options = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    for name, default in (("prompts", 8), ("tokens", 64), ("threads", 1)):
        options.add_argument(f"--{name}", type=int, default=default)
    for name, default in (("seconds", 60.0), ("least", 1.0)):
        options.add_argument(f"--{name}", type=float, default=default)
    given = options.parse_args()
    seconds = measure(given)
    shares = {place: 100 * spent / sum(seconds.values()) for place, spent in seconds.most_common()}
    rest = [share for (arithmetic, _), share in shares.items() if not arithmetic and share < given.least]
    print("| part | % of a step |\n|---|---|")
    for (arithmetic, name), share in sorted(shares.items(), key=lambda entry: not entry[0][0]):
        if arithmetic or share >= given.least:
            print(f"| {'the model: ' if arithmetic else ''}{name} | {share:.1f} |")
    print(f"| {len(rest)} others, each below {given.least:g} | {sum(rest):.1f} |")


if __name__ == "__main__":
    main()
