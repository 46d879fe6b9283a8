"""Policies of a team that work at the same time."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any, TypeVar

T = TypeVar("T")
_ALIKE = 2  # how many times larger the largest model may be than the smallest
_PATIENCE = 1e-4  # seconds after which a model asks for the interpreter; Python's 5e-3 cost a small step 6 %


def side_by_side(policies: Sequence[Any], works: Sequence[Callable[[], T]]) -> list[T]:
    """Do one piece of work per policy; what computes on different devices does so at the same time.

    On each accelerator (`accelerator`, see `LanguageModel`) the policies work in turn, in a thread of its own. All
    others work here: a small model gains little from a second core, two of them gain a whole one each, so the cores are
    divided among models of like size (`processor_load`); anything else works in turn, with all cores.

    Args:
        policies: Whose work it is, all different.
        works: What is to be done, in the same order.

    Returns:
        The results in order.
    """
    places: dict[str | None, list[int]] = {None: []}
    for number, policy in enumerate(policies):
        places.setdefault(getattr(policy, "accelerator", None), []).append(number)
    here = places.pop(None)
    if len(places) + bool(here) < 2:
        return _on_the_processor(policies, works) if here else [work() for work in works]
    results: dict[int, T] = {}

    def in_turn(numbers: Sequence[int]) -> None:
        for number in numbers:
            results[number] = works[number]()

    with ThreadPoolExecutor(len(places), "accelerator") as threads:  # which waits for all, also when one fails
        begun = [threads.submit(in_turn, numbers) for numbers in places.values()]
        found = _on_the_processor([policies[number] for number in here], [works[number] for number in here])
    for future in begun:
        future.result()
    results.update(zip(here, found, strict=True))
    return [results[number] for number in range(len(works))]


def _on_the_processor(policies: Sequence[Any], works: Sequence[Callable[[], T]]) -> list[T]:
    """Models of like size at the same time, anything else in turn."""
    loads = [getattr(policy, "processor_load", 0) for policy in policies]
    if len(works) < 2 or not all(loads) or max(loads) > _ALIKE * min(loads):
        return [work() for work in works]

    import torch

    cores = torch.get_num_threads()
    workers = min(len(works), cores)
    if workers < 2:
        return [work() for work in works]
    share = cores // workers
    patience = sys.getswitchinterval()
    torch.set_num_threads(share)  # of the process, for what asks there
    sys.setswitchinterval(_PATIENCE)
    try:
        begun = [_pool(workers, share).submit(work) for work in works]
        wait(begun)  # also when one fails: nobody is to go on behind the caller's back
        return [future.result() for future in begun]
    finally:
        torch.set_num_threads(cores)
        sys.setswitchinterval(patience)


@functools.cache
def _pool(workers: int, threads: int) -> ThreadPoolExecutor:
    """Threads that stay, since each may have compute threads of its own."""
    import torch

    return ThreadPoolExecutor(workers, "model", initializer=torch.set_num_threads, initargs=(threads,))
