"""Print tables of regret in Markdown, an environment per row and a method per column.

    llm-dec-pomdp report RUN --json | xz > research/data/NAME.json.xz
    python research/regret_table.py research/data/NAME.json.xz

The first table is in % of the scale of each environment, the second in its unit. Both have the interval over seeds.
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import Any

import raw_data


def table(lines: list[dict[str, Any]], column: str, digits: int) -> str:
    """Return a table of one column of the section, by environment and method."""
    methods = list(dict.fromkeys(line["method"] for line in lines))
    rows: dict[str, dict[str, str]] = {}
    for line in lines:
        section = line["sections"]["regret"]
        row = rows.setdefault(line["environment"], {"optimum": f"{section['optimum']:.2f}"})
        value = {name: math.nan if number is None else number for name, number in section[column].items()}
        row[line["method"]] = f"{value['mean']:.{digits}f} ({value['low']:.{digits}f} to {value['high']:.{digits}f})"
    head = ["problem", "optimum", *methods]
    body = [[name, *(row.get(key, "") for key in head[1:])] for name, row in rows.items()]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in [head, ["---"] * len(head), *body])


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path)
    lines = raw_data.read(parser.parse_args().results)["lines"]
    print(table(lines, "regret %", 0), table(lines, "regret", 2), sep="\n\n")


if __name__ == "__main__":
    main()
