"""Measures of played pairs of functions: cooperation schemes, the return by scheme, and which function broke a pair.

A function is right if it passes all tests together with the reference of the other function. A failed pair fails at
least one test. It belongs to one of four kinds:

| kind | main with the reference of aux | aux with the reference of main |
|---|---|---|
| aux broke main | passes | fails |
| main broke aux | fails | passes |
| both right | passes | passes |
| both wrong | fails | fails |

Two right functions fail together if they divide the work in different ways. A function that divides it in another way
than the references counts as wrong.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING

from ...sandbox import Verdict
from ...types import Episode, Group, TaskItem
from . import reward
from .reward import Program, ProgramJudge
from .schemes import SCHEMES, classify

if TYPE_CHECKING:
    from .base import CodeTask

KINDS = {(True, False): "aux broke main", (False, True): "main broke aux", (True, True): "both right"}
BOTH_WRONG = "both wrong"


def measured(env: CodeTask, groups: Sequence[Group], judge: ProgramJudge) -> dict[str, Mapping[str, float]]:
    """Return three tables over the scored episodes.

    Args:
        env: The task, with the rows of the groups.
        groups: Played episodes.
        judge: Runs programs in the code sandbox.

    Returns:
        "schemes": the share of episodes that show each scheme, in [0, 1]. "return by scheme": the mean return in % of
        the episodes that show it, and of those that show none. "failed pairs": the share of failed pairs in %, and the
        share of each kind among them, for rows with references. Numbers over no episode are left out.
    """
    items = {item.id: item for item in env.items}
    episodes = [e for group in groups for e in group.episodes if e.final is not None and e.final.scorable]
    pairs = [(e.item_id, _program_of(env, items[e.item_id], e)) for e in episodes]
    scores = [env.facts.score_scale.percent(e.final.total) for e in episodes if e.final is not None]
    shown = {(name, program): classify(items[name], program, judge) for name, program in dict.fromkeys(pairs)}
    shares: dict[str, float] = {}
    returns: dict[str, list[float]] = {}
    for scheme in SCHEMES:
        found = [score for pair, score in zip(pairs, scores, strict=True) if scheme in shown[pair]]
        shares[scheme], returns[scheme] = len(found) / max(len(pairs), 1), found
    returns["no scheme"] = [score for pair, score in zip(pairs, scores, strict=True) if not shown[pair]]
    by_scheme = {f"{scheme} %": fmean(found) for scheme, found in returns.items() if found}
    known = [pair for pair in pairs if items[pair[0]].reference]
    kinds = {(name, program): _failure(env, items[name], program, judge) for name, program in dict.fromkeys(known)}
    failed = [kind for pair in known if (kind := kinds[pair])]
    failures = {"failed %": 100 * len(failed) / len(known)} if known else {}
    if failed:
        failures |= {f"{kind} %": 100 * failed.count(kind) / len(failed) for kind in (*KINDS.values(), BOTH_WRONG)}
    tables = {"schemes": shares, "return by scheme": by_scheme, "failed pairs": failures}
    return {name: table for name, table in tables.items() if table}


def _program_of(env: CodeTask, item: TaskItem, episode: Episode) -> Program:
    """Return the two functions that an episode scored last, under any protocol."""
    texts = list(episode.last_texts.values())
    parts = env.facts.split(texts[0]) if len(texts) == 1 else texts
    return env.program(item, dict(zip(env.possible_agents, (parts[0], parts[-1]), strict=True)))


def _failure(env: CodeTask, item: TaskItem, program: Program, judge: ProgramJudge) -> str:
    """Return the kind of a failed pair, see the module; "" if all tests pass."""
    right = env.program(item, dict(zip(env.possible_agents, item.reference or (), strict=True)))
    pairs = (program, Program(right.aux, program.main), Program(program.aux, right.main))
    together, main, aux = map(_passes, judge([reward.job(item, pair.source) for pair in pairs]))
    return "" if together else KINDS.get((main, aux), BOTH_WRONG)


def _passes(verdict: Verdict) -> bool:
    return bool(verdict.total) and verdict.passed == verdict.total
