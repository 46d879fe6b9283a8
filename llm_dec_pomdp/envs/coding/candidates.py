"""Candidate functions of embedded problems, from which agents select one by a letter (`wrappers.Choices`).

A table or a small model writes no correct function. With a choice it still shows which behaviour a reward teaches.
`scripts/build_candidates.py` makes candidates of these kinds from the reference pairs of some problems and keeps those
that the code sandbox confirms:

| kind | aux | main |
|---|---|---|
| gold | the reference | the reference, a coordinator |
| off by one | passes some tests and fails some, together with the reference of the other function | as aux |
| stub | returns None | returns None |
| helper ignored | | passes all tests without a call of aux |
| fallback | | computes the value of aux itself if aux fails |
| decorator | returns the answer without its last step | takes the last step |
| strategy filter | returns whether a case is a special one | branches on it |

Pairs of one kind, and gold with fallback, pass all tests and show that scheme of `envs.coding.schemes`.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from importlib import resources


@functools.cache
def candidates() -> Mapping[str, Mapping[str, Mapping[str, str]]]:
    """Return the candidates by problem id, role and kind, from `data/candidates.jsonl`."""
    text = (resources.files("llm_dec_pomdp.data") / "candidates.jsonl").read_text(encoding="utf-8")
    rows = [json.loads(line) for line in text.split("\n") if line]
    return {row["id"]: {role: row[role] for role in ("aux", "main")} for row in rows}
