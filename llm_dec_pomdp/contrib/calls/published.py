"""The rows of BFCL v4 in the package `bfcl-eval`, read as files.

    pip install --no-deps bfcl-eval==2026.3.23

The 32 requirements of the package are not needed. The data are under Apache-2.0.
"""

from __future__ import annotations

import functools
import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from llm_dec_pomdp.types import TaskItem

COMMAND = "pip install --no-deps bfcl-eval==2026.3.23"


def installed() -> bool:
    """Return whether the package `bfcl-eval` is installed."""
    return find_spec("bfcl_eval") is not None


def rows(name: str) -> list[dict[str, Any]]:
    """Return the rows of a file.

    Args:
        name: Path in `bfcl_eval/data`, without suffix.

    Raises:
        ModuleNotFoundError: The package `bfcl-eval` is not installed; the message has the command to install it.
    """
    spec = find_spec("bfcl_eval")
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(f"the rows of BFCL v4 need the package bfcl-eval; install it: {COMMAND}")
    path = Path(spec.submodule_search_locations[0]) / "data" / f"{name}.json"
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


@functools.cache
def memory_rows() -> tuple[TaskItem, ...]:
    """Return the 155 questions of BFCL v4 about conversations, for `memory-v0`; a piece is one message of the user.

    Raises:
        ModuleNotFoundError: See `rows`.
    """
    right = {row["id"]: row["ground_truth"] for row in rows("possible_answer/BFCL_v4_memory")}
    items: list[TaskItem] = []
    for row in rows("BFCL_v4_memory"):
        fields = {"pieces": _conversations(row["scenario"]), "answer": "\n".join(right[row["id"]])}
        items.append(TaskItem(row["id"], row["question"][0][0]["content"], "test", fields=fields))
    return tuple(items)


@functools.cache
def _conversations(scenario: str) -> str:
    talks = rows(f"memory_prereq_conversation/memory_{scenario}")
    contents = (message["content"] for talk in talks for turn in talk["question"] for message in turn)
    return "\n".join(" ".join(text.split()) for text in contents)
