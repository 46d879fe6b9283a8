"""Policies of a team that work at the same time."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any, TypeVar

T = TypeVar("T")
_ALIKE = 2  # how many times larger the largest model may be than the smallest
_SWITCH_INTERVAL = 1e-4  # seconds after which a model asks for the interpreter; Python's 5e-3 cost a small step 6 %


def side_by_side(policies: Sequence[Any], tasks: Sequence[Callable[[], T]]) -> list[T]:
    """Do one task per policy; what computes on different devices does so at the same time.

    On each accelerator (`accelerator`, see `LanguageModel`) the policies work in turn, in a thread of its own. All
    others work here: a small model gains little from a second core, two of them gain a whole one each, so the cores are
    divided among models of like size (`processor_load`); anything else works in turn, with all cores.

    Args:
        policies: Who does the tasks, all different.
        tasks: What is to be done, in the same order.

    Returns:
        The results in order.
    """
    places: dict[str | None, list[int]] = {None: []}
    for number, policy in enumerate(policies):
        places.setdefault(getattr(policy, "accelerator", None), []).append(number)
    here = places.pop(None)
    if len(places) + bool(here) < 2:
        return _on_the_processor(policies, tasks) if here else [task() for task in tasks]
    results: dict[int, T] = {}

    def in_turn(numbers: Sequence[int]) -> None:
        for number in numbers:
            results[number] = tasks[number]()

    with ThreadPoolExecutor(len(places), "accelerator") as threads:  # which waits for all, also when one fails
        futures = [threads.submit(in_turn, numbers) for numbers in places.values()]
        results_here = _on_the_processor([policies[number] for number in here], [tasks[number] for number in here])
    for future in futures:
        future.result()
    results.update(zip(here, results_here, strict=True))
    return [results[number] for number in range(len(tasks))]


def _on_the_processor(policies: Sequence[Any], tasks: Sequence[Callable[[], T]]) -> list[T]:
    """Models of like size at the same time, anything else in turn."""
    loads = [getattr(policy, "processor_load", 0) for policy in policies]
    if len(tasks) < 2 or not all(loads) or max(loads) > _ALIKE * min(loads):
        return [task() for task in tasks]

    import torch

    cores = torch.get_num_threads()
    workers = min(len(tasks), cores)
    if workers < 2:
        return [task() for task in tasks]
    share = cores // workers
    interval = sys.getswitchinterval()
    torch.set_num_threads(share)  # of the process, for what asks there
    sys.setswitchinterval(_SWITCH_INTERVAL)
    try:
        futures = [_pool(workers, share).submit(task) for task in tasks]
        wait(futures)  # also when one fails: nobody is to go on behind the caller's back
        return [future.result() for future in futures]
    finally:
        torch.set_num_threads(cores)
        sys.setswitchinterval(interval)


@functools.cache
def _pool(workers: int, threads: int) -> ThreadPoolExecutor:
    """Threads that stay, since each may have compute threads of its own."""
    import torch

    return ThreadPoolExecutor(workers, "model", initializer=torch.set_num_threads, initargs=(threads,))
