"""Run the policies of a team in parallel."""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Protocol, TypeVar

T = TypeVar("T")
OtherT = TypeVar("OtherT")
_ALIKE = 2  # models run in parallel on the CPU if the largest is at most this many times as large as the smallest
_SWITCH_INTERVAL = 1e-4  # seconds between switches of threads; Python's default of 5e-3 makes a small step 6 % slower


class OnDevice(Protocol):
    """The part of a `Policy` that this module uses: its device and its load."""

    @property
    def accelerator(self) -> str | None:
        """Return the accelerator that it computes on; None for the CPU."""
        ...

    @property
    def processor_load(self) -> int:
        """Return a size that predicts the CPU time; 0: it must not run in parallel."""
        ...


def run_parallel(policies: Sequence[OnDevice], tasks: Sequence[Callable[[], T]]) -> list[T]:
    """Run one task per policy, in parallel if the policies are on different devices.

    Each accelerator (`Policy.accelerator`) has a thread, which runs the tasks of its policies sequentially. Policies on
    the CPU run in parallel if their models have similar sizes (`processor_load`), each with an equal part of the cores.
    (Two small models are faster with one core each than sequentially with two cores.) Other policies run sequentially
    with all cores.

    Args:
        policies: The policies, all different.
        tasks: One task for each policy, in the same order.

    Returns:
        The results, in the same order.
    """
    places: dict[str | None, list[int]] = {None: []}
    for number, policy in enumerate(policies):
        places.setdefault(policy.accelerator, []).append(number)
    here = places.pop(None)
    if len(places) + bool(here) < 2:
        return _on_the_processor(policies, tasks) if here else [task() for task in tasks]
    results: dict[int, T] = {}

    def in_turn(numbers: Sequence[int]) -> None:
        for number in numbers:
            results[number] = tasks[number]()

    with ThreadPoolExecutor(len(places), "accelerator") as threads:  # waits for all, even if one fails
        futures = [threads.submit(in_turn, numbers) for numbers in places.values()]
        results_here = _on_the_processor([policies[number] for number in here], [tasks[number] for number in here])
    for future in futures:
        future.result()
    results.update(zip(here, results_here, strict=True))
    return [results[number] for number in range(len(tasks))]


def run_concurrently(work: Callable[[], T], other: Callable[[], OtherT]) -> tuple[T, OtherT]:
    """Run `work` in this thread and `other` in a second one, each with half of the CPU cores.

    Return or raise when both have finished; an exception of `work` takes precedence.
    """
    import torch

    cores = torch.get_num_threads()
    share = max(1, cores // 2)

    def in_the_other() -> OtherT:
        torch.set_num_threads(share)
        return other()

    future = _second().submit(in_the_other)
    torch.set_num_threads(share)
    try:
        done = work()
    finally:
        wait([future])
        torch.set_num_threads(cores)
    return done, future.result()


@functools.cache
def _second() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1, "beside")


def _on_the_processor(policies: Sequence[OnDevice], tasks: Sequence[Callable[[], T]]) -> list[T]:
    """Run models of similar size in parallel, other models one after the other."""
    loads = [policy.processor_load for policy in policies]
    if len(tasks) < 2 or not all(loads) or max(loads) > _ALIKE * min(loads):
        return [task() for task in tasks]

    import torch

    cores = torch.get_num_threads()
    workers = min(len(tasks), cores)
    if workers < 2:
        return [task() for task in tasks]
    share = cores // workers
    interval = sys.getswitchinterval()
    torch.set_num_threads(share)
    sys.setswitchinterval(_SWITCH_INTERVAL)
    try:
        pool = _pool(workers, share, threading.current_thread().name)
        futures = [pool.submit(task) for task in tasks]
        wait(futures)  # for all of them, even if one fails
        return [future.result() for future in futures]
    finally:
        torch.set_num_threads(cores)
        sys.setswitchinterval(interval)


@functools.cache
def _pool(workers: int, threads: int, caller: str) -> ThreadPoolExecutor:
    """Return a pool of threads; it is cached per calling thread, since its threads may own compute threads."""
    import torch

    return ThreadPoolExecutor(workers, "model", initializer=torch.set_num_threads, initargs=(threads,))
