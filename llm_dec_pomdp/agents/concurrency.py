"""Models of a team that work at the same time."""

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
    """Do one piece of work per policy; models on a processor do theirs at the same time.

    A small model gains little from a second core, two of them gain a whole one each. So the cores are divided among
    models of like size (`processor_load`, see `LanguageModel`); anything else works in turn, with all cores.

    Args:
        policies: Whose work it is, all different.
        works: What is to be done, in the same order.

    Returns:
        The results in order.
    """
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
