# pyright: basic
"""What to do when the device runs out of memory: smaller micro-batches, the same gradient."""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
_log = logging.getLogger(__name__)


class OutOfDeviceMemoryError(RuntimeError):
    """Not even one sequence at a time fits into the device's memory."""


class MicroBatch:
    """How many sequences go through the model at once. Halves itself for good when the device runs out of memory.

    Args:
        size: To start with.
    """

    def __init__(self, size: int) -> None:
        self.size = size

    def run(self, work: Callable[[int], T], undo: Callable[[], None]) -> T:
        """Do something that takes memory in proportion to the micro-batch.

        Args:
            work: Takes the size, and accumulates the gradient of the whole batch.
            undo: Forgets what an unfinished `work` accumulated.

        Raises:
            OutOfDeviceMemoryError: It does not fit with a size of 1.
        """
        import torch  # here, so that what only names the error loads no torch

        while True:
            try:
                return work(self.size)
            except torch.cuda.OutOfMemoryError as error:
                reason = str(error)
            # Out here nothing refers to the tensors of the failed pass any more, as the error's traceback did.
            undo()
            gc.collect()
            torch.cuda.empty_cache()
            if self.size == 1:
                raise OutOfDeviceMemoryError(
                    f"the device is out of memory with one sequence at a time ({reason}); shorten prompts or "
                    "max_new_tokens, train adapters (sharing=lora), or take a smaller model"
                )
            self.size = (self.size + 1) // 2
            _log.warning("the device is out of memory; micro_batch is %d from now on (%s)", self.size, reason)
