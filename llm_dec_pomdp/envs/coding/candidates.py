"""Candidate functions of embedded problems, among which agents choose by a letter.

A small policy writes no correct function, and a table no text at all; what a reward teaches is seen with a choice. For
some problems there are candidates of these kinds, made from the reference pair by `scripts/build_candidates.py` and
confirmed by the judge:

| kind | aux | main |
|---|---|---|
| gold | the reference | the reference, a coordinator |
| off by one | fails a test with the other's reference, and passes a test | as aux |
| stub | returns None | returns None |
| helper ignored | | passes all tests without calling aux |
| fallback | | does the work of aux itself where aux fails |
| decorator | has the answer but for a last step | takes the last step |
| strategy filter | says whether a case is a special one | acts on it |

Pairs of one kind, and gold with fallback, pass all tests and show that scheme of `envs.coding.schemes`.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from importlib import resources

from ...sandbox import Job, Verdict, default_pool
from ...seeding import derive, uniforms
from ...types import TaskItem

LETTERS = {"aux": "ABCDE", "main": "ABCDEFG"}
Kinds = Mapping[str, Mapping[str, str]]  # role -> kind -> function

_REMEMBERED = 10_000  # verdicts; agents may also write functions of their own
_verdicts: dict[Job, Verdict] = {}


@functools.cache
def kinds() -> Mapping[str, Kinds]:
    """The candidates by the id of their problem, from `data/candidates.jsonl`."""
    text = (resources.files("llm_dec_pomdp.data") / "candidates.jsonl").read_text(encoding="utf-8")
    rows = [json.loads(line) for line in text.split("\n") if line]
    return {row["id"]: {role: row[role] for role in LETTERS} for row in rows}


def with_candidates(items: Sequence[TaskItem]) -> tuple[TaskItem, ...]:
    """The problems that have candidates."""
    return tuple(item for item in items if item.id in kinds())


def lettered(item: TaskItem, role: str) -> dict[str, str]:
    """The candidates of a problem by letter, in an order that says nothing of their kinds."""
    of_kind = kinds()[item.id][role]
    texts = [of_kind[kind] for kind in sorted(of_kind, key=lambda kind: derive(0, item.id, role, kind))]
    return dict(zip(LETTERS[role], texts, strict=True))


def offer(item: TaskItem, role: str) -> str:
    """The candidates as an agent is told them."""
    listed = [f"{letter}:\n{text}" for letter, text in lettered(item, role).items()]
    return "\n".join(
        [*listed, f"Answer with the letter of one of these, {', '.join(LETTERS[role])}, or write another."]
    )


def chosen(item: TaskItem, role: str, text: str) -> str:
    """The candidate that a letter stands for; any other text as it is."""
    return lettered(item, role).get(text.strip(), text)


def reviewed(item: TaskItem, written: Sequence[str], right: float) -> dict[str, str]:
    """What a scripted reviewer suggests, by role: both references with probability `right`, else two other candidates.

    Args:
        item: The problem.
        written: The two functions; the same ones are always reviewed alike.
        right: A probability.
    """
    draws = uniforms(derive(0, item.id, "review", *written), 1 + len(LETTERS))
    edits: dict[str, str] = {}
    for role, u in zip(LETTERS, draws[1:], strict=True):
        of_kind = kinds()[item.id][role]
        wrong = [kind for kind in sorted(of_kind) if kind != "gold"]
        edits[role] = of_kind["gold" if draws[0] < right else wrong[int(u * len(wrong))]]
    return edits


def judged(jobs: Sequence[Job]) -> list[Verdict]:
    """What the judge says of programs, each of which runs once in this process: pairs of candidates are few."""
    new = [job for job in dict.fromkeys(jobs) if job not in _verdicts]
    verdicts = {job: _verdicts[job] for job in jobs if job in _verdicts}
    verdicts |= zip(new, default_pool().run(new), strict=True) if new else ()
    if len(_verdicts) > _REMEMBERED:
        _verdicts.clear()
    _verdicts.update({job: verdict for job, verdict in verdicts.items() if verdict.outcome != "infra_error"})
    return [verdicts[job] for job in jobs]
