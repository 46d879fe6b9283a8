"""Read the returns of teams on an environment from `research/data`, and select the best learner."""

from __future__ import annotations

import json
import lzma
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import llm_dec_pomdp
from llm_dec_pomdp.contrib.calls.bfcl import BFCL
from llm_dec_pomdp.envs.base import Facts

DATA = Path(__file__).parent.parent / "research" / "data"
NO_LEARNERS = {"single", "concat", "sequential", "discussion", "imitation", "random", "untrained", "optimal"}


class Reached(NamedTuple):
    """Bar of a figure: a team and the value of each seed (a return in % of the maximum, or an exploitability)."""

    team: str
    values: tuple[float, ...]
    unit: str = "%"

    @property
    def mean(self) -> float:
        """The mean over seeds."""
        return fmean(self.values)

    @property
    def shown(self) -> str:
        """The mean as text."""
        return f"{self.mean + 0.0:.0f} %" if self.unit == "%" else f"{self.mean + 0.0:.2f}"


class Source(NamedTuple):
    """Files with the returns of a task.

    Attributes:
        files: Names in research/data without ".xz", with the same settings; their seeds are pooled.
        environment: Label of the environment in the files.
        start: The method whose return is the return before training; "" to read it from the curve of the best learner.
        model: Model of the team, for files that do not name it.
        tasks: Tasks of the files, if they are not the offline tasks of the environment.
    """

    files: tuple[str, ...]
    environment: str
    start: str = ""
    model: str = "builtin:table"
    tasks: str = ""


def _textbook(name: str) -> tuple[Source, ...]:
    return (Source(("classics.json",), f"{name}-v0 H=3", "random"),)


SCITLDR = "SmolLM2-135M on abstracts of SciTLDR"
CALLS = (
    "table as dispatcher: trained and scored on training rows 0, 2, 3 and 7, with candidates, specialists from "
    "`script:gold` and the reward outcome"
)
GAMES = ("pennies", "kuhn")  # zero-sum games, whose teams are compared by exploitability
SOURCES: Mapping[str, tuple[Source, ...]] = {
    "tldr": (Source(("writing_smollm2.json",), "tldr-v0", tasks=SCITLDR), Source(("tldr_credit.json",), "tldr-v0")),
    "arxiv": (Source(("arxiv_limits.json",), "arxiv-v0", tasks=SCITLDR), Source(("arxiv_tiny.json",), "arxiv-v0")),
    "humaneval": (Source(("smollm2.json",), "humaneval-v0", "single"),),
    "coophumaneval": (Source(("smollm2_coophumaneval.json",), "coophumaneval-v0", "single"),),
    "classeval": (Source(("software.json",), "classeval-v0 choice"),),
    "keys": (Source(("learners.json",), "keys-v0"),),
    "research": (Source(("research_skills.json",), "research-v0"),),
    "calls": (Source(("calls.json",), "calls-v0 outcome", tasks=CALLS),),
    "bfcl": (Source(("calls_bfcl.json",), "bfcl-v0 outcome"),),
    **{name: (Source(("reached.json",), f"{name}-v0"),) for name in ("telegrams", "mbpp", "modules", "bandit")},
    **{name: (Source(("selfplay.json",), f"{name}-v0"),) for name in GAMES},
    "document": (
        Source(
            ("document.json",),
            "4 writers",
            tasks="tables of four writers and an editor on three tasks, with candidates",
        ),
    ),
    **dict.fromkeys(("merge", "review"), ()),  # no team was measured
    "staghunt": (Source(("staghunt.json",), "joint, hare 0.5"),),
    "verify": (Source(("verify.json",), "joint"),),
    "debate": (Source(("debate.json",), "shown, all trained"),),
    "incident": (Source(("incident.json",), "three responders"),),
    "support": (Source(("user.json",), "support-v0"),),
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
    """Return the bars of an environment, the weakest team first."""
    if name in GAMES:
        return sorted(_exploitable(name), key=lambda bar: -bar.mean)
    facts: Facts = BFCL.declared if name == "bfcl" else llm_dec_pomdp.make(f"{name}-v0").facts
    bars = [bar for source in SOURCES[name] for bar in _bars(source)]
    best = facts.max_return / facts.score_range[1] if facts.optimum is None else 1.0
    team = "script:optimal" if "optimal" in facts.scripts else "script:gold"
    lowest = {facts.score_range[0], facts.score_scale.percent(facts.score_range[0])}
    nothing = [Reached("empty texts", (0.0,))] if facts.silence_is_lowest and lowest == {0.0} else []
    return sorted([*nothing, *bars, Reached(team, (100 * best,))], key=lambda bar: bar.mean)


def _bars(source: Source) -> Iterator[Reached]:
    rows = [row for file in source.files for row in _rows(file, source)]
    methods: dict[str, list[_Row]] = {}
    for row in rows:
        methods.setdefault(row.method, []).append(row)
    learnt = [method for method, cells in methods.items() if cells[0].learns]
    best = max(learnt or methods, key=lambda m: fmean(row.percent for row in methods[m]))
    if not learnt:
        yield Reached(f"{best}, {methods[best][0].model}", tuple(row.percent for row in methods[best]))
        return
    start = [row.percent for row in methods[source.start]] if source.start else [row.before for row in methods[best]]
    model = methods[best][0].model
    yield Reached(source.start if source.start == "random" else f"start, {model}", tuple(start))
    yield Reached(f"{best}, {model}", tuple(row.percent for row in methods[best]))


def _recorded(file: str) -> Any:
    """Return the contents of a file of raw data."""
    return json.loads(lzma.decompress((DATA / f"{file}.xz").read_bytes()))


def _exploitable(name: str) -> Iterator[Reached]:
    """Yield bars of the learner that ends nearest to an equilibrium, a random team and the equilibrium."""
    unit = "exploitability"
    env: Any = llm_dec_pomdp.make(f"{name}-v0")
    recorded: Any = _recorded(SOURCES[name][0].files[0])
    learnt = [row for row in recorded if row["game"] == f"{name}-v0" and not row["learner"].endswith("_shuffled")]
    best = min(learnt, key=lambda row: fmean(seed["last"] for seed in row["seeds"]))
    for of, note in (("last", ""), ("mean", ", mean of updates")):
        yield Reached(f"{best['learner']}{note}", tuple(seed[of] for seed in best["seeds"]), unit)
    even = env.exploitability(lambda agent, history: dict.fromkeys(menu := env.choices(agent), 1 / len(menu)))
    yield Reached("random", (even,), unit)
    yield Reached("script:equilibrium", (env.exploitability(env.equilibrium),), unit)


class _Row(NamedTuple):
    method: str
    model: str
    percent: float
    before: float
    learns: bool


def _rows(file: str, source: Source) -> Iterator[_Row]:
    recorded: Any = _recorded(file)
    if isinstance(recorded, Mapping):  # lines of a report, with the mean of every seed
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
        members = cell["model"].get("members") or []
        name_of = members[0]["model"] if cell["model"]["name"] == "team" else cell["model"]["name"]
        model = name_of.removesuffix("-Instruct.Q4_1.gguf")
        yield _Row(method, model, percent, before, name not in NO_LEARNERS and "control" not in label)


def in_words(bars: Sequence[Reached]) -> str:
    """Return the bars as text, for readers who do not see the figure."""
    unit = "" if bars[0].unit == "%" else f"{bars[0].unit}: "
    return unit + ", ".join(f"{bar.team} {bar.mean:.1f} %" if not unit else f"{bar.team} {bar.shown}" for bar in bars)
