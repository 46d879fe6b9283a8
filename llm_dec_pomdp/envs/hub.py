"""Published data sets, from the Hugging Face hub or from its cache."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Generator, Iterable, Mapping
from typing import Any

_SECONDS = 5.0  # time to wait for an answer
_SLICE = re.compile(r"(\w+)(?:\[(\d*):(\d*)\])?")  # of a split: train[:1000]


def load_published(name: str, config: str | None, split: str) -> Iterable[Mapping[str, Any]]:
    """Return the rows of a data set.

    Raises:
        Exception: The data set does not exist or cannot be reached; the client raises many unrelated types.
    """
    import datasets  # heavy, like the client of the hub below

    with _cache_alone(not _answers(name)):
        loaded: Any = datasets.load_dataset(name, config, split=split, trust_remote_code=False)
    return loaded


def stream_published(name: str, config: str | None, split: str) -> Iterable[Mapping[str, Any]]:
    """Return the rows of a data set, which are downloaded as they are read.

    Raises:
        Exception: See `load_published`.
    """
    import datasets  # heavy

    slice_ = _SLICE.fullmatch(split)
    assert slice_ is not None, split
    part, first, last = slice_[1], int(slice_[2] or 0), int(slice_[3] or 0)
    rows: Any = datasets.load_dataset(name, config, split=part, streaming=True, trust_remote_code=False)
    rows = rows.skip(first) if first else rows
    return rows.take(last - first) if last else rows


def _answers(name: str) -> bool:
    """Return whether the hub answers; one short request, since loading would retry for half a minute."""
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError

    try:
        HfApi().dataset_info(name, timeout=_SECONDS)
    except HfHubHTTPError:  # the hub answered with an error, which loading reports
        return True
    except Exception:
        return False
    return True


@contextlib.contextmanager
def _cache_alone(alone: bool) -> Generator[None]:
    """Load data sets from the cache without a request to the hub, as with HF_HUB_OFFLINE=1."""
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
