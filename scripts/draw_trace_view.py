"""Draw docs/trace_view.png: the trace viewer in Chromium, with an episode of research-v0.

    python scripts/draw_trace_view.py [--width 1280] [--out docs/trace_view.png]

The team is script:optimal. Each word of its actions counts as one token and one second, as if a model had sampled it.
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

REPORT = 11  # the row with the report of the first sub-agent


class Counted(Policy):
    """Policy that acts like a script, with one second per word."""

    def __init__(self, script: Scripted) -> None:
        self._script = script

    def generate(self, requests: Sequence[Request], sampling: Sampling) -> list[list[Completion]]:
        """Return the actions of the script with counted tokens and seconds."""
        return [
            [counted(completion) for completion in answers] for answers in self._script.generate(requests, sampling)
        ]


def counted(completion: Completion) -> Completion:
    """Return the completion with a token and a second for every word."""
    words = len(completion.text.split())
    return dataclasses.replace(completion, token_ids=(0,) * words, seconds=float(words))


def an_episode() -> Trace:
    """Return the trace of an episode with the first task of research-v0."""
    env = llm_dec_pomdp.make("research-v0")
    item = env.items[0]
    team = Counted(Scripted(env.task.script("optimal")))  # type: ignore[attr-defined]
    [group] = Trajectories("own").play(env, team, [item.id], [3], Sampling())
    return from_episode(group.episodes[0], Header.of(env), item)


def main() -> None:
    """Open the page, select an event, and write a screenshot."""
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
        page.wait_for_timeout(300)  # wait until the list has scrolled
        page.screenshot(path=given.out)
        browser.close()


if __name__ == "__main__":
    main()
