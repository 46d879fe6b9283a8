"""Published data sets, from the hub or from its cache."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Generator, Iterable, Mapping
from typing import Any

_SECONDS = 5.0  # to wait for an answer
_SLICE = re.compile(r"(\w+)(?:\[(\d*):(\d*)\])?")  # of a split: train[:1000]


def load_published(name: str, config: str | None, split: str) -> Iterable[Mapping[str, Any]]:
    """The rows of a data set.

    Raises:
        Exception: The client raises a dozen unrelated types for "not there" and "not reachable".
    """
    import datasets  # heavy, like the client of the hub below

    with _cache_alone(not _answers(name)):
        loaded: Any = datasets.load_dataset(name, config, split=split, trust_remote_code=False)
    return loaded


def stream_published(name: str, config: str | None, split: str) -> Iterable[Mapping[str, Any]]:
    """The rows of a data set, downloaded as they are read.

    Raises:
        Exception: See `load_published`.
    """
    import datasets  # as above

    slice_ = _SLICE.fullmatch(split)
    assert slice_ is not None, split
    part, first, last = slice_[1], int(slice_[2] or 0), int(slice_[3] or 0)
    rows: Any = datasets.load_dataset(name, config, split=part, streaming=True, trust_remote_code=False)
    rows = rows.skip(first) if first else rows
    return rows.take(last - first) if last else rows


def _answers(name: str) -> bool:
    """Whether the hub says anything about a data set. Asked once: its client would ask again for half a minute."""
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError

    try:
        HfApi().dataset_info(name, timeout=_SECONDS)
    except HfHubHTTPError:  # an answer, which loading explains
        return True
    except Exception:
        return False
    return True


@contextlib.contextmanager
def _cache_alone(alone: bool) -> Generator[None]:
    """Let data sets come from the cache without a question to the hub, as HF_HUB_OFFLINE=1 does from the start."""
    from datasets import config
    from huggingface_hub import constants

    settings: list[Any] = [constants, config]
    before = [setting.HF_HUB_OFFLINE for setting in settings]
    for setting in settings:
        setting.HF_HUB_OFFLINE = setting.HF_HUB_OFFLINE or alone
    try:
        yield
    finally:
        for setting, value in zip(settings, before, strict=True):
            setting.HF_HUB_OFFLINE = value
