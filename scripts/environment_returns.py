"""What teams reached on an environment, as the files of docs/results record it; the best learner is found there."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import llm_dec_pomdp

RESULTS = Path(__file__).parent.parent / "docs" / "results"
NO_LEARNERS = {"single", "concat", "sequential", "discussion", "imitation", "random", "untrained", "optimal"}


class Reached(NamedTuple):
    """A bar: a team, and its returns in % of the maximum, one per seed."""

    team: str
    percent: tuple[float, ...]

    @property
    def mean(self) -> float:
        """Over the seeds."""
        return fmean(self.percent)


class Source(NamedTuple):
    """Where a task was measured.

    Attributes:
        files: In docs/results, with the same settings; seeds are taken together.
        environment: Its label there.
        start: The method that shows where learners began; "" where the curve of the best one does.
        model: Who played, where the files do not say it.
    """

    files: tuple[str, ...]
    environment: str
    start: str = ""
    model: str = "builtin:table"


def _textbook(name: str) -> tuple[Source, ...]:
    return (Source(("classics.json",), f"{name}-v0 H=3", "random"),)


SOURCES: Mapping[str, tuple[Source, ...]] = {
    "tldr": (Source(("writing_smollm2.json",), "tldr-v0"), Source(("tldr_credit.json",), "tldr-v0")),
    "arxiv": (Source(("writing_smollm2.json",), "arxiv-v0"), Source(("arxiv_tiny.json",), "arxiv-v0")),
    "humaneval": (Source(("smollm2.json",), "humaneval-v0", "single"),),
    "coophumaneval": (Source(("smollm2_coophumaneval.json",), "coophumaneval-v0", "single"),),
    "classeval": (Source(("software.json",), "classeval-v0 choice"),),
    "keys": (Source(("learners.json",), "keys-v0"),),
    "research": (Source(("research_skills.json",), "research-v0"),),
    "calls": (Source(("calls.json",), "calls-v0 outcome"),),
    "memory": (Source(("calls.json",), "memory-v0"),),
    **{name: (Source(("planning.json",), f"{name}-v0"),) for name in ("meeting", "repair", "trip")},
    "relay": (Source(("messages.json",), "relay-v0 sequential"),),
    "scouts": (Source(("stopping.json", "stopping_learners.json"), "scouts-v0", "untrained"),),
    **{
        name: _textbook(name)
        for name in ("dectiger", "broadcast", "recycling", "gridsmall", "firefighting", "boxpushing")
    },
}


def reached(name: str) -> list[Reached]:
    """The bars of an environment, from the weakest team on; [] where no learner was recorded."""
    facts = llm_dec_pomdp.make(f"{name}-v0").facts
    bars = [bar for source in SOURCES.get(name, ()) for bar in _bars(source)]
    if not bars:
        return []
    best = facts.max_return / facts.score_range[1] if facts.optimum is None else 1.0
    team = "script:optimal" if "optimal" in facts.scripts else "script:gold"
    nothing = [Reached("empty texts", (0.0,))] if facts.silence_is_lowest and facts.score_range[0] == 0 else []
    return sorted([*nothing, *bars, Reached(team, (100 * best,))], key=lambda bar: bar.mean)


def _bars(source: Source) -> Iterator[Reached]:
    rows = [row for file in source.files for row in _rows(file, source)]
    methods: dict[str, list[_Row]] = {}
    for row in rows:
        methods.setdefault(row.method, []).append(row)
    best = max((m for m, r in methods.items() if r[0].learns), key=lambda m: fmean(row.percent for row in methods[m]))
    start = [row.percent for row in methods[source.start]] if source.start else [row.before for row in methods[best]]
    model = methods[best][0].model
    yield Reached(source.start if source.start == "random" else f"start, {model}", tuple(start))
    yield Reached(f"{best}, {model}", tuple(row.percent for row in methods[best]))


class _Row(NamedTuple):
    method: str
    model: str
    percent: float
    before: float
    learns: bool


def _rows(file: str, source: Source) -> Iterator[_Row]:
    recorded: Any = json.loads((RESULTS / file).read_text(encoding="utf-8"))
    if isinstance(recorded, Mapping):  # lines of a report, which keep the mean of every seed
        for line in recorded["lines"]:
            if line["environment"] == source.environment:
                learns = line["method"] not in {*NO_LEARNERS, "control", "never stop", "stop at once", "fixed looks"}
                for percent in line["by_seed"].values():
                    yield _Row(line["method"], source.model, percent, 0.0, learns and line["method"] != "grpo")
        return
    for row in recorded:
        yield from _cell(row, source.environment)


def _cell(row: Mapping[str, Any], environment: str) -> Iterator[_Row]:
    cell, curve = row["cell"], row.get("curve") or []
    name, label = cell["method"]["name"], cell["method"].get("label") or cell["method"]["name"]
    trained = cell["method"]["options"].get("learning_rate") != 0
    if (cell["environment"].get("label") or cell["environment"]["id"]) == environment and trained:
        label = label.replace(", ", " ")
        method = label if name in label or "control" in label else f"{name} ({label})"
        percent = row["summary"]["return_percent"]["mean"]
        before = curve[0]["return_percent"]["mean"] if curve else percent
        model = cell["model"]["name"].removesuffix("-Instruct.Q4_1.gguf")
        yield _Row(method, model, percent, before, name not in NO_LEARNERS and "control" not in label)


def in_words(bars: Sequence[Reached]) -> str:
    """For those who do not see the figure."""
    return ", ".join(f"{bar.team} {bar.mean:.1f} %" for bar in bars)
