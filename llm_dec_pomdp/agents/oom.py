# pyright: basic
"""Out of memory on the device: go on with fewer sequences at once, and the same result."""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
_log = logging.getLogger(__name__)


class OutOfDeviceMemoryError(RuntimeError):
    """Not even one sequence at a time fits into the device's memory."""


class BatchSize:
    """How many sequences go through the model at once; halved for good when the device runs out of memory.

    Messages call it by the `name` of its option.
    """

    def __init__(self, name: str, size: int) -> None:
        self.name = name
        self.size = size

    def run(self, work: Callable[[int], T], undo: Callable[[], None] = lambda: None) -> T:
        """Do work that takes memory in proportion to the size.

        Args:
            work: Takes the size; called again with a smaller one, it starts anew or goes on with what is left.
            undo: Removes what an unfinished `work` left behind.

        Raises:
            OutOfDeviceMemoryError: It does not fit with a size of 1.
        """
        import torch  # here, so that what only names the error loads no torch

        while True:
            size = self.size
            try:
                return work(size)
            except torch.cuda.OutOfMemoryError as error:
                reason = str(error)
            # The traceback of the error, which held the tensors of the failed pass, is gone here.
            undo()
            gc.collect()
            torch.cuda.empty_cache()
            if size == 1:
                raise OutOfDeviceMemoryError(
                    f"the device is out of memory with one sequence at a time ({reason}); shorten prompts or "
                    "max_new_tokens, train adapters (sharing=lora), or take a smaller model"
                )
            self.size = min(self.size, (size + 1) // 2)  # another device may have halved it meanwhile
            _log.warning("the device is out of memory; %s is %d from now on (%s)", self.name, self.size, reason)
