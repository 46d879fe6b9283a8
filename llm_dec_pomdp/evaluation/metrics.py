"""Metrics of a set of groups, under their published names."""

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

Measured = Mapping[str, Mapping[str, Interval]]  # section -> name -> value
SOLVED_SHARE = 0.9  # of the maximum; with tests, solved means that all of them passed


@dataclass(frozen=True, slots=True)
class Summary:
    """The metrics of an evaluation of one seed; intervals are over its tasks, or over the episodes of a single task.

    Attributes:
        return_percent: Last score of an episode in %, on the environment's `score_scale`.
        components: Parts of this score, in units of the score.
        distinct_2: Share of different word pairs in a text, mean over texts. A low value means that words repeat. A
            high value does not show that a text makes sense: random words reach 1, too.
        tokens_per_second: Sampled tokens divided by the wall time of playing and scoring.
        response_seconds: Mean seconds from observation to joint action: agents of a turn act in parallel (max), turns
            follow each other (sum). A discussion has two rounds, which count as turns. Texts are sampled in
            batches, so use it only to compare methods. The waiting time of a single user is `latency`.
        prompt_tokens, generated_tokens: Mean per episode over all rounds; NaN if a server does not report them.
        thought_tokens: Mean number of the generated tokens that belong to private thoughts, per episode.
        truncated: Share of texts that reached the token limit.
        episodes, unscored: Number of episodes, and how many of them could not be scored and are left out.
        solved: Share of the scored episodes that solved their task: all tests passed, or without tests at least 90 % of
            the maximum.
        tokens_per_solved: Prompt and sampled tokens of all episodes divided by the solved ones; NaN if none is.
        latency: Seconds to a joint action, one task at a time; None if it was not measured.
        measured: Numbers of the sections of the report, by section; see `evaluation.sections`.
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
    thought_tokens: float = 0.0
    latency: Interval | None = None
    measured: Measured = field(default_factory=dict[str, Mapping[str, Interval]])

    @property
    def earned(self) -> str:
        """The return as a short text, see `earned`."""
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
        """Build a summary from the result of `dataclasses.asdict`; fields that a file lacks are NaN, empty or None.

        Raises:
            FileError: The values of `source` are not a summary.
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
    """Return the numbers of two sections that older files have as fields of their own."""
    by_name = conform(values.get("at_k", {}), dict[str, dict[str, Any]], f"{source}, field at_k")
    at_k = {f"{name}@{k}": v for name, by_k in by_name.items() for k, v in by_k.items()}
    sections = {"at_k": at_k, "schemes": values.get("schemes", {})}
    return {section: numbers for section, numbers in sections.items() if numbers}


def earned(percent: float, mean_return: float, optimum: float | None) -> str:
    """Return the return and the regret in the unit of the game as text; if the optimum is unknown, the return in %."""
    return f"{percent:.1f} %" if optimum is None else f"{mean_return:.2f} (regret {optimum - mean_return:.2f})"


def final_scores(groups: Sequence[Group]) -> list[list[Score]]:
    """Return the last scores of the episodes of each task, without those that could not be scored."""
    return [[e.final for e in group.episodes if e.final and e.final.scorable] for group in groups]


def summarise(groups: Sequence[Group], scale: Scale, components: Sequence[str], seconds: float) -> Summary:
    """Measure an evaluation; see `Summary`.

    Args:
        groups: One group per task.
        scale: The scores that count as 0 % and as 100 %.
        components: Names of the parts of the score.
        seconds: Wall time of playing and scoring all groups, in seconds.
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
        thought_tokens=sum(c.thought_tokens for c in completions) / max(len(everything), 1),
        truncated=_mean(float(c.truncated) for c in completions),
        episodes=len(everything),
        unscored=len(everything) - len(solved),
        solved=_mean(map(float, solved)),
        tokens_per_solved=(prompt + sampled) / sum(solved) if any(solved) else math.nan,
    )


def is_solved(score: Score, scale: Scale) -> bool:
    """Return whether all tests passed or, for a task without tests, the score is at least 90 % of the maximum."""
    if "tests" in score.components:
        return bool(score.diagnostics.get("tests_total")) and tests_passed(score) == 1.0
    return score.total >= scale.low + SOLVED_SHARE * (scale.high - scale.low)


def tests_passed(score: Score) -> float:
    """Return the share of passed asserts; 0 if the program never ran."""
    total = score.diagnostics.get("tests_total", 0.0)
    return score.diagnostics["tests_passed"] / total if total else 0.0


def _independent(final: Sequence[Sequence[Score]], number: Callable[[Score], float]) -> list[float]:
    """Return a number per independent unit: the mean of each task, or the value of each episode of a single task."""
    scored = [scores for scores in final if scores]
    units = [[score] for score in scored[0]] if len(scored) == 1 == len(final) else scored
    return [fmean(map(number, scores)) for scores in units]


def _mean(values: Iterable[float]) -> float:
    collected = list(values)
    return fmean(collected) if collected else math.nan
