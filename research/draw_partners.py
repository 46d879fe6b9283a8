"""Collect the results of cross-play and robustness, print their tables, and draw own against other partners.

python research/draw_partners.py runs/crossed/* runs/robust --collect research/data/partners.json.xz
python research/draw_partners.py research/data/partners.json.xz --out docs/results/partners.svg
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import raw_data
from matplotlib import pyplot as plt

Values = Mapping[str, Any]


def collected(folders: Sequence[Path]) -> dict[str, Any]:
    """Return the results of folders of `crossplay` and `robustness` by the name of the folder."""
    names = ("crossplay.json", "robustness.json")
    files = {folder.name: folder / name for folder in folders for name in names if (folder / name).is_file()}
    return {
        name.replace("_v0", "-v0").replace("-magrpo", ", MAGRPO").replace("-control", ", control").replace("_", " "): {
            key: value
            for key, value in json.loads(path.read_text(encoding="utf-8"), parse_constant=lambda _: None).items()
            if key != "teams"
        }
        for name, path in files.items()
    }


def shown(value: Values) -> str:
    """Return a mean with its interval."""
    bounds = f" ({value['low']:.1f} to {value['high']:.1f})" if value["low"] is not None else ""
    return f"{value['mean']:.1f}{bounds}"


def tables(results: Mapping[str, Values]) -> list[str]:
    """Return the lines of all tables in Markdown."""
    crossed = {name: found for name, found in results.items() if "matrix" in found}
    lines = ["| environment and method | teams | own | other | gap |", "|---|---|---|---|---|"]
    lines += [
        f"| {name} | {len(f['matrix'])} | {shown(f['own'])} | {shown(f['other'])} | {shown(f['gap'])} |"
        for name, f in crossed.items()
    ]
    for name, found in results.items():
        if "losses" not in found:
            continue
        roles = list(dict.fromkeys(loss["role"] for loss in found["losses"]))
        lines += ["", f"| {name}: points lost | {' | '.join(roles)} |", f"|{'---|' * (1 + len(roles))}"]
        for change in dict.fromkeys(loss["change"] for loss in found["losses"]):
            by_role = {loss["role"]: loss["loss"] for loss in found["losses"] if loss["change"] == change}
            cells = [shown(by_role[role]) if role in by_role else "" for role in roles]
            lines.append(f"| {change} | {' | '.join(cells)} |")
        if found["sizes"]:
            lines += ["", f"| {name}: {found['option']} | return % | untrained |", "|---|---|---|"]
            lines += [f"| {s['size']} | {shown(s['trained'])} | {shown(s['untrained'])} |" for s in found["sizes"]]
    return lines


def draw(results: Mapping[str, Values], out: Path) -> None:
    """Draw the own and the other return of each environment, with intervals over teams."""
    mpl.rcParams.update({"font.size": 10, "axes.spines.top": False, "axes.spines.right": False, "svg.fonttype": "none"})
    mpl.rcParams["svg.hashsalt"] = "partners"
    rows = {name: found for name, found in results.items() if "matrix" in found}
    figure, axis = plt.subplots(figsize=(7, 0.5 + 0.42 * len(rows)), layout="constrained")
    for place, found in enumerate(rows.values()):
        for name, colour, shift in (("own", "C0", -0.12), ("other", "C1", 0.12)):
            value = found[name]
            half = 0.0 if value["low"] is None else value["high"] - value["mean"]
            label = {"own": "own members", "other": "one member of another team"}[name] if place == 0 else None
            axis.errorbar(value["mean"], place + shift, xerr=half, fmt="o", color=colour, capsize=2, label=label)
    axis.set_yticks(range(len(rows)), rows)
    axis.invert_yaxis()
    axis.set_xlabel("return, %")
    axis.grid(axis="x", alpha=0.3, linewidth=0.5)
    figure.legend(loc="outside lower center", ncols=2, frameon=False)
    figure.savefig(out, metadata={"Date": None})


def main() -> None:
    """Collect results, or print the tables and draw the figure of collected ones."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", nargs="+", type=Path)
    parser.add_argument("--collect", type=Path)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    if options.collect:
        raw_data.write(options.collect, collected(options.results))
        return
    (path,) = options.results
    results = raw_data.read(path)
    print("\n".join(tables(results)))
    if options.out:
        draw(results, options.out)


if __name__ == "__main__":
    main()
