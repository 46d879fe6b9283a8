"""The address of a server in place of an environment id: `make("http://127.0.0.1:8000", split="test")`."""

from __future__ import annotations

from ..envs import TextDecPOMDP
from ..envs.tasks import ALL_ROWS, SPLITS, TaskError, is_sample
from ..registries import nearest
from .remote import RemoteEnv


def served(
    url: str,
    *,
    tasks: str = "sample",
    split: str | None = None,
    max_turns: int | None = None,
    render_mode: str | None = None,
) -> TextDecPOMDP:
    """Return the environment of an address, for `make(url)` and for every command that accepts an id.

    Args:
        url, max_turns, render_mode: See `RemoteEnv`.
        tasks: Only "sample", since the server has the tasks.
        split: "train" or "test": the server's tasks of this split and its tasks without a split; None or "all": all.

    Raises:
        TaskError: `tasks` names other tasks, or the split is unknown or empty.
    """
    if not is_sample(tasks):
        raise TaskError(f"tasks is {tasks!r:.60}, and {url} has its own; give them to the server: serve ID --tasks ...")
    if split not in (None, *SPLITS):
        raise TaskError(f"split {split!r} does not exist; {nearest(split, SPLITS)}")
    env = RemoteEnv(url, max_turns=max_turns, render_mode=render_mode)
    if split in (None, "all"):
        return env
    chosen = [item for item in env.items if item.split in ("", split)]
    if not chosen:
        raise TaskError(f"{url} has no tasks in split {split!r} among {len(env.items)}; {ALL_ROWS}")
    return env.with_items(chosen)
