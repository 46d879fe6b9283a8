"""Draw docs/trace_view.png, the viewer of traces with an episode of research-v0 (Chromium).

    python scripts/draw_trace_view.py [--width 1280] [--out docs/trace_view.png]

The team is script:optimal; for every word that it says it is given a token and a second, as a model would need.
"""

from __future__ import annotations

import argparse
import dataclasses
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from playwright.sync_api import sync_playwright

import llm_dec_pomdp
from llm_dec_pomdp.agents import Policy, Request, Sampling, Scripted
from llm_dec_pomdp.episodes import Header, Trace, from_episode
from llm_dec_pomdp.report.viewer.page import render
from llm_dec_pomdp.rollout import Trajectories
from llm_dec_pomdp.types import Completion

REPORT = 11  # the row of what the first sub-agent reports


class Counted(Policy):
    """Says what a script says, at a word a second."""

    def __init__(self, script: Scripted) -> None:
        self._script = script

    def generate(self, requests: Sequence[Request], sampling: Sampling) -> list[list[Completion]]:
        """Ask the script, and count."""
        return [
            [counted(completion) for completion in answers] for answers in self._script.generate(requests, sampling)
        ]


def counted(completion: Completion) -> Completion:
    """The same with a token and a second for every word."""
    words = len(completion.text.split())
    return dataclasses.replace(completion, token_ids=(0,) * words, seconds=float(words))


def an_episode() -> Trace:
    """Of the first task of research-v0."""
    env = llm_dec_pomdp.make("research-v0")
    item = env.items[0]
    team = Counted(Scripted(env.task.script("optimal")))  # type: ignore[attr-defined]
    [group] = Trajectories("own").play(env, team, [item.id], [3], Sampling())
    return from_episode(group.episodes[0], Header.of(env), item)


def main() -> None:
    """Open the page, choose an event, and take the picture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--width", type=int, default=1280)
    parser.add_argument("--out", type=Path, default=Path("docs/trace_view.png"))
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as started:
        path = Path(folder) / "trace.html"
        path.write_text(render([an_episode()]), encoding="utf-8")
        browser = started.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": given.width, "height": 700 if given.width > 600 else 800})
        page.goto(path.as_uri())
        page.locator(f"#viewer-0-{REPORT}").click()
        page.wait_for_timeout(300)  # until the list has moved
        page.screenshot(path=given.out)
        browser.close()


if __name__ == "__main__":
    main()
