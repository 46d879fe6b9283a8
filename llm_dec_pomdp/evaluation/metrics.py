"""What is measured on a set of groups, under the published names."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from ..algorithms.diagnostics import distinct
from ..storage.reading import conform
from ..types import Group, Scale, Score
from .intervals import Interval, mean_interval, percent_interval

Measured = Mapping[str, Mapping[str, Interval]]  # by section
SOLVED_SHARE = 0.9  # of the maximum; where there are tests, solved means that all of them passed


@dataclass(frozen=True, slots=True)
class Summary:
    """An evaluation of one seed in numbers; its intervals are over its tasks, or over the episodes of a single task.

    Attributes:
        return_percent: Score of what was delivered last, in % of the maximum (of the environment's `score_scale`).
        components: Its parts, in units of the score.
        distinct_2: Share of different word pairs in a text, mean over texts. A low value means that words repeat. A
            high one is no sign of sense: natural prose and random words both reach 1.
        tokens_per_second: Generated tokens over wall time of playing and judging.
        response_seconds: Mean time from question to joint answer: agents of a turn in parallel (max), turns in sequence
            (sum), so a discussion takes max + max. It is for comparing methods, since texts were drawn in batches; what
            a single user would wait is `latency`.
        prompt_tokens, generated_tokens: Mean per episode, every round counted; NaN where a server does not report them.
        truncated: Share of texts that ran into the token limit.
        episodes, unscored: How many were played, and how many of them could not be scored and are left out.
        solved: Share of the scored episodes that solved their task: all tests passed, or without tests at least 90 % of
            the maximum.
        tokens_per_solved: Prompt and generated tokens of all episodes over the solved ones; NaN where none is.
        latency: Seconds to a joint answer, one task at a time; None where it was not measured.
        measured: What sections of the report measured, by section; see `evaluation.sections`.
    """

    return_percent: Interval
    components: dict[str, Interval]
    distinct_2: float
    tokens_per_second: float
    response_seconds: float
    prompt_tokens: float
    generated_tokens: float
    truncated: float
    episodes: int
    unscored: int
    solved: float = math.nan
    tokens_per_solved: float = math.nan
    latency: Interval | None = None
    measured: Measured = field(default_factory=dict[str, Mapping[str, Interval]])

    @property
    def earned(self) -> str:
        """The return in a line, see `earned`."""
        regret = self.measured.get("regret")
        mean_return, optimum = (regret["return"].mean, regret["optimum"].mean) if regret else (math.nan, None)
        return earned(self.return_percent.mean, mean_return, optimum)

    def __repr__(self) -> str:
        parts = "".join(f", {name} {value.mean:.3g}" for name, value in self.components.items())
        low, high = self.return_percent.low, self.return_percent.high
        percent = f"{self.return_percent.mean:.1f} %"
        in_units = "" if self.earned == percent else f"{self.earned}, "
        interval = f" [{low:.1f}, {high:.1f}]" if math.isfinite(low) else ""
        return f"Summary(return {in_units}{percent}{interval}{parts}, {self.episodes} episodes)"

    @classmethod
    def from_dict(cls, values: Any, source: str = "summary") -> Summary:
        """The inverse of `dataclasses.asdict`; what an older file lacks is NaN, empty or None.

        Raises:
            FileError: The values of `source` are of no summary.
        """
        table = conform(values, dict[str, Any], source)
        known: dict[str, Any] = {
            name: math.nan if value is None and name != "latency" else value
            for name, value in table.items()
            if name in cls.__dataclass_fields__
        }
        parts = conform(table.get("components"), dict[str, Any], f"{source}, field components")
        measured = table.get("measured") or _measured_by_earlier_versions(table, source)
        sections = conform(measured, dict[str, dict[str, Any]], f"{source}, field measured")
        known["return_percent"] = Interval.plain(table.get("return_percent"))
        known["components"] = {name: Interval.plain(value) for name, value in parts.items()}
        known["latency"] = Interval.plain(table["latency"]) if table.get("latency") is not None else None
        known["measured"] = {section: {n: Interval.plain(v) for n, v in of.items()} for section, of in sections.items()}
        return conform(known, cls, source)


def _measured_by_earlier_versions(values: Mapping[str, Any], source: str) -> dict[str, dict[str, Any]]:
    """Older files kept what two sections measured beside the rest."""
    by_name = conform(values.get("at_k", {}), dict[str, dict[str, Any]], f"{source}, field at_k")
    at_k = {f"{name}@{k}": v for name, by_k in by_name.items() for k, v in by_k.items()}
    sections = {"at_k": at_k, "schemes": values.get("schemes", {})}
    return {section: numbers for section, numbers in sections.items() if numbers}


def earned(percent: float, mean_return: float, optimum: float | None) -> str:
    """A return in a line: in the unit of the game beside the regret, or in % of the maximum without a known optimum."""
    return f"{percent:.1f} %" if optimum is None else f"{mean_return:.2f} (regret {optimum - mean_return:.2f})"


def final_scores(groups: Sequence[Group]) -> list[list[Score]]:
    """By task the last scores of its episodes, without those that could not be scored."""
    return [[e.final for e in group.episodes if e.final and e.final.scorable] for group in groups]


def summarise(groups: Sequence[Group], scale: Scale, components: Sequence[str], seconds: float) -> Summary:
    """Measure an evaluation; see `Summary`.

    Args:
        groups: One per task.
        scale: Which scores are 0 % and 100 %.
        components: Names of the reward parts.
        seconds: Wall time of playing and judging all of them.
    """
    everything = [e for group in groups for e in group.episodes]
    completions = [completion for e in everything for turn in e.turns for completion in turn.actions.values()]
    final = final_scores(groups)
    solved = [is_solved(score, scale) for scores in final for score in scores]
    prompt, sampled = sum(c.prompt_tokens for c in completions), sum(c.sampled_tokens for c in completions)
    return Summary(
        return_percent=percent_interval(_independent(final, lambda score: scale.percent(score.total))),
        components={
            name: mean_interval(_independent(final, lambda score, name=name: score.components.get(name, 0.0)))
            for name in components
        },
        distinct_2=_mean(d for e in everything for t in e.last_texts.values() if not math.isnan(d := distinct(t))),
        tokens_per_second=sampled / seconds if seconds else math.nan,
        response_seconds=_mean(e.response_seconds for e in everything),
        prompt_tokens=prompt / max(len(everything), 1),
        generated_tokens=sampled / max(len(everything), 1),
        truncated=_mean(float(c.truncated) for c in completions),
        episodes=len(everything),
        unscored=len(everything) - len(solved),
        solved=_mean(map(float, solved)),
        tokens_per_solved=(prompt + sampled) / sum(solved) if any(solved) else math.nan,
    )


def is_solved(score: Score, scale: Scale) -> bool:
    """All tests passed; where a task has none, at least 90 % of the maximum."""
    if "tests" in score.components:
        return bool(score.diagnostics.get("tests_total")) and tests_passed(score) == 1.0
    return score.total >= scale.low + SOLVED_SHARE * (scale.high - scale.low)


def tests_passed(score: Score) -> float:
    """Share of passed asserts; 0 where the program never ran."""
    total = score.diagnostics.get("tests_total", 0.0)
    return score.diagnostics["tests_passed"] / total if total else 0.0


def _independent(final: Sequence[Sequence[Score]], number: Callable[[Score], float]) -> list[float]:
    """A number of each independent unit: its mean over the episodes of each task, or each episode of a single task."""
    scored = [scores for scores in final if scores]
    units = [[score] for score in scored[0]] if len(scored) == 1 == len(final) else scored
    return [fmean(map(number, scores)) for scores in units]


def _mean(values: Iterable[float]) -> float:
    collected = list(values)
    return fmean(collected) if collected else math.nan
