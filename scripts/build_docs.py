"""Rebuild the generated pages of `docs/`: environments, data cards, the audit of CoopHumanEval and the leaderboard.

    python scripts/build_docs.py
    python scripts/draw_environments.py

The pages have the same text as `llm-dec-pomdp list ID`; a test fails if they are out of date. The second command draws
their figures.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence

import board_page
import data_cards
import environment_pages
from environment_pages import DOCS, GENERATED

from llm_dec_pomdp.envs.registration import registry


def audit_page() -> str:
    """Return the page with the findings on published CoopHumanEval rows."""
    parts = [
        "# Audit of CoopHumanEval",
        "This page lists the published problems of CoopHumanEval with wrong tests: each assert and the reason. All 82 "
        "problems were solved from their texts. The solutions were run against the tests and the examples in the "
        "texts, and every failure was examined. `coophumaneval-v1` leaves out rows whose asserts contradict the text, "
        "its examples or each other. Rows with two defensible readings are kept and listed in `env.ambiguous`.",
    ]
    audit = importlib.import_module(registry.find("coophumaneval-v1").load().__module__).audit
    for kind, found in audit().items():
        ids = dict.fromkeys(finding["id"] for finding in found)
        parts += [f"## {kind.capitalize()}: {len(found)} asserts in {len(ids)} rows", *_rows(found, list(ids))]
    return GENERATED + "\n\n".join(parts) + "\n"


def _rows(found: Sequence[Mapping[str, str]], ids: Sequence[str]) -> list[str]:
    lines: list[str] = []
    for task_id in ids:
        lines.append(f"### {task_id}")
        lines += [f"    {f['assert']}\n\n{f['reason']}" for f in found if f["id"] == task_id]
    return lines


PAGES = {
    **environment_pages.PAGES,
    "board.md": board_page.board_page,
    "data_cards.md": data_cards.page,
    "notes/coophumaneval_audit.md": audit_page,
}


def main() -> None:
    for name, page in PAGES.items():
        (DOCS / name).write_text(page(), encoding="utf-8")
        print(f"wrote docs/{name}")


if __name__ == "__main__":
    main()
