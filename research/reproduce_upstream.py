"""Run the programs of docs/notes/upstream.md with the installed libraries, and compare their output with the page.

    python research/reproduce_upstream.py gymnasium comlrl     # sections whose title starts with these names

The title of a section is a distribution and its version. This version must be installed.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from importlib import metadata
from pathlib import Path

PAGE = Path(__file__).parent.parent / "docs" / "notes" / "upstream.md"
PROGRAM = re.compile(r"\*\*(.+?)\*\*.*?```python\n(.*?)```\n\n```text\n(.*?)```", re.DOTALL)


def programs(page: str, distribution: str) -> list[tuple[str, str, str]]:
    """Return the findings of a section: the description, the program that shows it, and its output."""
    for section in page.split("\n## ")[1:]:
        title, _, body = section.partition("\n")
        name, version = title.split()
        if name == distribution:
            if metadata.version(name) != version:
                raise SystemExit(f"{name} {metadata.version(name)} is installed, but the page is about {version}")
            return PROGRAM.findall(body)
    raise SystemExit(f"{PAGE.name} has no section about {distribution!r}")


def printed(program: str) -> str:
    """Run a program as a file in a temporary folder, and return its output."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "program.py"
        path.write_text(program, encoding="utf-8")
        command = [sys.executable, "-W", "ignore", str(path)]
        return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=300).stdout


def main() -> None:
    page, gone = PAGE.read_text(encoding="utf-8"), 0
    for distribution in sys.argv[1:]:
        for what, program, expected in programs(page, distribution):
            output = printed(program)
            gone += output != expected
            print(f"{distribution}: {what} {'as described' if output == expected else f'NOT as described: {output}'}")
    raise SystemExit(1 if gone else 0)


if __name__ == "__main__":
    main()
