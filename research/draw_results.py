"""Draw the figures of docs/results/README.md that no other script draws, from research/data.

    python research/draw_results.py [NAME ...]

The left panel of overview.svg has the training return of SmolLM2 on tldr-v0, mean and range of the seeds over five
updates, and the return on held-out abstracts before and after. The right panel has the regret on the textbook problems
at horizon 3, means with 95 % t intervals over the seeds. In most other figures a row is a team, a dot a seed, and a bar
their mean.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from textwrap import fill
from typing import Any

import matplotlib as mpl
import numpy as np
import raw_data
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

RESULTS = Path(__file__).parent.parent / "docs" / "results"
STYLE = {
    "font.size": 11,
    "svg.hashsalt": "results",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 11,
    "axes.titlelocation": "left",
}
SMOOTHED, HORIZON = 5, "H=3"
CONTROL = {"control", "shuffled", "magrpo_shuffled", "start", "comlrl"}  # drawn in grey
Earned = Mapping[str, Sequence[float]]  # returns of the seeds by team
METHODS = {
    "marloo": ("#1b6ca8", "MARLOO"),
    "magrpo": ("#c8553d", "MAGRPO"),
    "counterfactual": ("#3f8f5f", "counterfactual credit"),
    "crossed": ("#8a5fb0", "crossed credit"),
    "control": ("#7d8794", "control (shuffled)"),
}


def read(name: str) -> Any:
    """Return the contents of a file of raw data."""
    return raw_data.read(raw_data.DATA / f"{name}.xz")


def writing(axes: Axes) -> None:
    """Draw the three seeds of SmolLM2-135M with adapters, by update."""
    cells = [c for c in read("writing_smollm2.json") if c["cell"]["environment"]["id"] == "tldr-v0"]
    seeds = [c for c in cells if c["cell"]["training"]["steps"] == 64]
    window = np.ones(SMOOTHED) / SMOOTHED
    curves = np.array([np.convolve(c["training_return_percent"], window, "valid") for c in seeds])
    steps = np.arange(SMOOTHED, SMOOTHED + curves.shape[1])
    axes.fill_between(steps, curves.min(0), curves.max(0), color="#c8553d", alpha=0.25, linewidth=0)
    axes.plot(steps, curves.mean(0), color="#c8553d", label=f"training, {len(seeds)} seeds")
    for label, place in (("held out", -1), ("", 0)):
        points = [(c["curve"][place]["step"], c["curve"][place]["return_percent"]["mean"]) for c in seeds]
        mean = float(np.mean([value for _, value in points]))
        axes.plot(*zip(*points, strict=True), "o", color="#1c2733", label=label or None, markersize=5, clip_on=False)
        beside = {"xytext": (-8, -22), "ha": "right"} if place else {"xytext": (10, -4), "ha": "left"}
        axes.annotate(f"{mean:.0f} %", (points[0][0], mean), textcoords="offset points", **beside)
    axes.set(title="SmolLM2-135M on tldr-v0", xlabel="update", ylabel="return, % of the maximum")
    axes.set(xlim=(0, 64), ylim=(0, 100), xticks=range(0, 65, 16))
    axes.legend(loc="lower right", frameon=False)


def classics(axes: Axes) -> None:
    """Draw regret by problem and method."""
    lines = [line for line in read("classics.json")["lines"] if line["environment"].endswith(HORIZON)]
    problems = list(dict.fromkeys(line["environment"] for line in lines))
    for number, (method, (colour, label)) in enumerate(METHODS.items()):
        found = {
            line["environment"]: line["sections"]["regret"]["regret %"] for line in lines if line["method"] == method
        }
        means = np.array([found[problem]["mean"] for problem in problems])
        high = np.array([found[problem]["high"] for problem in problems])
        places = np.arange(len(problems)) + 0.15 * (number - 2)
        axes.errorbar(means, places, xerr=high - means, fmt="o", color=colour, label=label, markersize=4, linewidth=1)
    axes.set_yticks(range(len(problems)), [problem.split("-")[0] for problem in problems])
    axes.invert_yaxis()
    axes.set(title="Textbook problems, three turns", xlabel="regret, % (0: optimum, 100: random)", xlim=(0, 130))
    axes.legend(loc="upper center", bbox_to_anchor=(0.4, -0.2), ncol=3, frameon=False, fontsize=9, columnspacing=0.8)


def strip(axes: Axes, earned: Earned, title: str, label: str = "return, %") -> None:
    """Draw a row for each name: a dot for every seed, and a bar at their mean."""
    for row, (name, values) in enumerate(earned.items()):
        colour = METHODS["control" if name.split()[0] in CONTROL else "marloo"][0]
        axes.plot(values, [row] * len(values), "o", color=colour, alpha=0.6, markersize=6)
        axes.plot([fmean(values)] * 2, [row - 0.3, row + 0.3], color="#1c2733", linewidth=2)
    axes.axvline(0, color="#7d8794", linewidth=0.8)
    axes.set_yticks(range(len(earned)), [fill(name, 36) for name in earned])
    axes.set(title=title, xlabel=label, ylim=(len(earned) - 0.5, -0.5))


def label_of(cell: Mapping[str, Any]) -> str:
    """Return the label of a run's method in its suite."""
    return cell["method"]["label"] or cell["method"]["name"]


def seeds(
    file: str, problem: str = "", update: int | None = None, name: Callable[[Mapping[str, Any]], str] = label_of
) -> dict[str, list[float]]:
    """Return the returns of all seeds by team in %, at the end or, with `update`, at an evaluation during training."""
    earned: dict[str, list[float]] = {}
    for row in read(file):
        if not problem or row["cell"]["environment"]["id"] == problem:
            point = row["summary"] if update is None else row["curve"][update]
            earned.setdefault(name(row["cell"]), []).append(point["return_percent"]["mean"])
    return earned


def strips(panels: Mapping[str, Earned], label: str = "return, %", shared: bool = True) -> Figure:
    """Draw strips next to each other, with the same names if `shared`."""
    rows = max(map(len, panels.values()))
    figure, places = plt.subplots(
        1, len(panels), figsize=(9, 1.3 + 0.3 * rows), layout="constrained", sharex=shared, sharey=shared, squeeze=False
    )
    for axes, (title, earned) in zip(places[0], panels.items(), strict=True):
        strip(axes, earned, title, label)
    return figure


def ranked(earned: Earned) -> dict[str, Sequence[float]]:
    """Return the teams, best first."""
    return dict(sorted(earned.items(), key=lambda pair: -fmean(pair[1])))


def overview() -> Figure:
    """Draw the figure with both panels of the overview."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4.2), width_ratios=(1, 1.15), layout="constrained")
    writing(left)
    classics(right)
    return figure


def classics_regret() -> Figure:
    """Draw the right panel of the overview by itself."""
    figure, axes = plt.subplots(figsize=(7, 4.2), layout="constrained")
    classics(axes)
    return figure


def learners_seeds() -> Figure:
    """Draw the returns of nine learners and the control."""
    problems = ("dectiger-v0", "tldr-v0")
    return strips({problem: ranked(seeds("learners.json", problem)) for problem in problems}, shared=False)


def software() -> Figure:
    """Draw returns, and the candidate methods that trained teams choose."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 2.7), layout="constrained", sharey=True)
    strip(left, seeds("software.json"), "classeval-v0")
    chosen: dict[str, list[dict[str, float]]] = {}
    for row in read("software.json"):
        measured = row["summary"]["measured"]["candidates"]
        chosen.setdefault(label_of(row["cell"]), []).append({kind: share["mean"] for kind, share in measured.items()})
    ends = [0.0] * len(chosen)
    for kind in next(iter(chosen.values()))[0]:
        shares = [fmean(seed[kind] for seed in team) for team in chosen.values()]
        right.barh(range(len(chosen)), shares, left=ends, height=0.6, label=kind.removesuffix(" %"))
        ends = [end + share for end, share in zip(ends, shares, strict=True)]
    right.set(title="methods chosen", xlabel="% of choices")
    figure.legend(frameon=False, fontsize=9, ncols=6, loc="outside lower center")
    return figure


def gpu() -> Figure:
    """Draw tokens per second by the number of texts sampled at once."""
    figure, panels = plt.subplots(1, 2, figsize=(9, 3.2), layout="constrained")
    speeds = [row for row in read("gpu/h200_doctor.json")["speeds"] if "texts" in row]
    lines = (
        ("all weights", "tokens_per_s", "marloo"),
        ("all weights", "generate_tokens_per_s", "control"),
        ("adapters", "tokens_per_s", "magrpo"),
    )
    for axes, what, title in zip(panels, ("texts", "update"), ("sampling", "updates"), strict=True):
        for weights, key, colour in lines:
            rows = [row for row in speeds if row["what"] == what and row["weights"] == weights and key in row]
            label = "generate of transformers" if key.startswith("generate") else weights
            if rows:
                points = [row["texts"] for row in rows], [row[key] for row in rows]
                axes.plot(*points, "o-", color=METHODS[colour][0], label=label)
        axes.set(title=title, xlabel="completions at once", ylabel="tokens per second", xscale="log", yscale="log")
        axes.set_xticks([4, 32, 128, 512], ["4", "32", "128", "512"], minor=False)
        axes.legend(frameon=False, fontsize=9)
    return figure


def learner_options() -> Figure:
    """Draw the returns with every option after 10 and after 40 updates."""

    def name(cell: Mapping[str, Any]) -> str:
        given = {key: value for key, value in cell["method"]["options"].items() if key != "learning_rate"}
        return ", ".join(f"{key} {value}" for key, value in given.items()) or label_of(cell)

    first, last = (seeds("learner_options.json", "dectiger-v0", update, name) for update in (1, None))
    return strips({"after 10 updates": first, "after 40": last})


def selfplay() -> Figure:
    """Draw the exploitability of every seed, for the settings that both games have."""
    earned: dict[str, dict[str, list[dict[str, float]]]] = {}
    for row in read("selfplay_settings.json"):
        earned.setdefault(row["game"], {})[row["setting"]] = row["seeds"]
    shared = [setting for setting in earned["kuhn-v0"] if all(setting in of for of in earned.values())]
    panels = {
        f"{game}, {of}": {setting: [seed[of] for seed in by_setting[setting]] for setting in shared}
        for game, by_setting in earned.items()
        for of in ("last", "half")
    }
    return strips(panels, "exploitability")


def peer() -> Figure:
    """Draw both trainers at each learning rate with three seeds."""
    earned: dict[str, list[float]] = {}
    for run in sorted(read("peer.json")["runs"], key=lambda run: (run["learning_rate"], run["side"])):
        earned.setdefault(f"{run['side']} {run['learning_rate']:g}", []).append(run["after"])
    return strips({"tldr-v0, builtin:tiny": {name: found for name, found in earned.items() if len(found) > 1}})


def smollm2() -> Figure:
    """Draw one seed of each method, with its interval over problems."""
    figure, axes = plt.subplots(figsize=(7, 2.6), layout="constrained")
    rows = read("smollm2_coophumaneval.json")
    for place, row in enumerate(rows):
        found = row["summary"]["return_percent"]
        low, high = found["mean"] - found["low"], found["high"] - found["mean"]
        axes.errorbar(found["mean"], place, xerr=[[low], [high]], fmt="o", color=METHODS["marloo"][0])
    axes.set_yticks(range(len(rows)), [label_of(row["cell"]) for row in rows])
    axes.invert_yaxis()
    axes.set(title="CoopHumanEval, 82 problems", xlabel="return, % (interval over problems)", xlim=(0, None))
    return figure


def payoffs(file: str, panel: Callable[[Mapping[str, Any]], str], row: Callable[[Mapping[str, Any]], str]) -> Figure:
    """Draw strips of a game of `payoffs.py`, without the controls."""
    panels: dict[str, dict[str, list[float]]] = {}
    for run in read(file):
        if label_of(run["cell"]) == "control":
            continue
        earned = panels.setdefault(panel(run["cell"]), {}).setdefault(row(run["cell"]), [])
        earned.append(run["summary"]["return_percent"]["mean"])
    return strips(panels)


def performance() -> Figure:
    """Draw the ratios of speed on two machines."""
    machines = [read(file) for file in ("performance.json", "performance_zen3.json")]
    names = {
        "update_32k_vs_peer": "update, vocabulary of 32 thousand, against comlrl",
        "update_shared_prompt": "update after a shared prompt, against a bare loop",
        "generation_135m": "generation, 135 M model, against model.generate",
    }
    ratios = {name: [machine[key]["ratio"] for machine in machines] for key, name in names.items()}
    return strips({"": ratios}, "times as fast, on each of two machines")


FIGURES: Mapping[str, Callable[[], Figure]] = {
    "overview": overview,
    "classics_regret": classics_regret,
    "gpu": gpu,
    "learner_options": learner_options,
    "learners_seeds": learners_seeds,
    "peer": peer,
    "performance": performance,
    "research_skills": lambda: strips({"research-v0 after 32 updates": seeds("research_skills.json")}),
    "selfplay": selfplay,
    "smollm2": smollm2,
    "staghunt": lambda: payoffs(
        "staghunt.json",
        lambda cell: f"hare {cell['environment']['options']['hare']}",
        lambda cell: f"{label_of(cell)}, {cell['environment']['options']['rewards']}",
    ),
    "verify": lambda: payoffs("verify.json", lambda cell: f"{cell['environment']['label']} rewards", label_of),
    "debate": lambda: payoffs(
        "debate.json",
        lambda cell: f"evidence is {cell['environment']['options']['evidence']}",
        lambda cell: cell["environment"]["label"].partition(", ")[2],
    ),
    "incident": lambda: payoffs("incident.json", lambda cell: "incident-v0", label_of),
    "software": software,
}


def main() -> None:
    """Draw the named figures, or all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=list(FIGURES))
    with mpl.rc_context(STYLE):
        for name in parser.parse_args().names:
            save(FIGURES[name](), f"{name}.svg")


def save(figure: Figure, name: str) -> None:
    """Write a figure to docs/results, without a date."""
    figure.savefig(RESULTS / name, metadata={"Date": None})
    plt.close(figure)


if __name__ == "__main__":
    main()
