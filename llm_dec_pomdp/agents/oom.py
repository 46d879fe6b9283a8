# pyright: basic
"""Recovery from device out-of-memory errors: continue with smaller batches and the same result."""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
_log = logging.getLogger(__name__)


class OutOfDeviceMemoryError(RuntimeError):
    """The memory of the device is too small for a batch of one sequence."""


class BatchSize:
    """The number of sequences per forward pass, which is halved permanently when the device runs out of memory.

    Args:
        name: The name of the option, for messages.
        size: The initial size.
    """

    def __init__(self, name: str, size: int) -> None:
        self.name = name
        self.size = size

    def run(self, work: Callable[[int], T], undo: Callable[[], None] = lambda: None) -> T:
        """Run work whose memory grows with the batch size; retry with smaller sizes.

        Args:
            work: A function of the size. When called again, it starts from the beginning or continues.
            undo: A function that removes the results of an unfinished `work`.

        Returns:
            The result of `work`.

        Raises:
            OutOfDeviceMemoryError: The memory is too small for size 1.
        """
        import torch  # imported here, so that importing this module does not load torch

        while True:
            size = self.size
            try:
                return work(size)
            except torch.cuda.OutOfMemoryError as error:
                reason = str(error)
            # Outside of `except`, so that the traceback no longer keeps the tensors of the failed pass alive.
            undo()
            gc.collect()
            torch.cuda.empty_cache()
            if size == 1:
                raise OutOfDeviceMemoryError(
                    f"the device is out of memory with one sequence at a time ({reason}); shorten prompts or "
                    "max_new_tokens, train adapters (sharing=lora), or use a smaller model"
                )
            self.size = min(self.size, (size + 1) // 2)  # another device may have halved the size already
            _log.warning("the device is out of memory; %s is %d from now on (%s)", self.name, self.size, reason)
