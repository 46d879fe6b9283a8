"""An agent without a part in what its team earns is found: in an evaluation, while training, and in the report."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tasks import ITEMS, Graded

import llm_dec_pomdp
from llm_dec_pomdp.agents import Policy, Sampling
from llm_dec_pomdp.agents.scripted import Scripted, Uniform
from llm_dec_pomdp.benchmarks.cell import run_cell
from llm_dec_pomdp.benchmarks.runner import run_folder
from llm_dec_pomdp.benchmarks.suite import Suite
from llm_dec_pomdp.config import build
from llm_dec_pomdp.envs.base import TextDecPOMDP
from llm_dec_pomdp.envs.wrappers import with_protocol
from llm_dec_pomdp.evaluation.play import evaluate
from llm_dec_pomdp.evaluation.sections.influence import alarm
from llm_dec_pomdp.progress import Silent
from llm_dec_pomdp.report.text import write_report
from llm_dec_pomdp.types import Message


class Deaf(Graded):
    """What the second agent says changes nothing."""

    def __init__(self, tasks: Any = ITEMS, **options: Any) -> None:
        super().__init__(ITEMS if tasks == "sample" else tasks, **options)

    def choices(self, agent: str, history: Sequence[Message] = ()) -> Sequence[str]:
        return ("0", "1")


class Silences(Deaf):
    """So is silence, which is what the second agent may choose."""

    def choices(self, agent: str, history: Sequence[Message] = ()) -> Sequence[str]:
        return ("0", "1") if agent == "agent_0" else ("",)


def moved(env: TextDecPOMDP, policy: Policy, samples: int) -> dict[str, float]:
    _, summary = evaluate(policy, env, Sampling(), 0, samples=samples, agents=True)
    return {name: value.mean for name, value in summary.measured.get("influence", {}).items()}


def test_who_is_not_listened_to_moves_nothing() -> None:
    env = Deaf()
    numbers = moved(env, Uniform(env.choices), 8)
    assert numbers == {"first moves": 25.0, "second moves": 0.0}  # any other text is a point of four away
    assert alarm(numbers) == "second changes the return by 0.0 points, first by 25.0"
    assert not alarm({"first moves": 25.0, "second moves": 10.0}) and not alarm({})


def test_who_says_nothing_is_found_by_its_empty_texts() -> None:
    env = Silences()
    numbers = moved(env, Uniform(env.choices), 8)
    assert numbers == {"first moves": 25.0, "first empty %": 0.0, "second empty %": 100.0}
    assert "texts of second are empty" in alarm(numbers)
    assert not alarm({"first empty %": 100.0, "second empty %": 100.0})  # nobody dominates


def test_who_is_heard_moves_what_others_say_then() -> None:
    """A speaker of relay-v0 earns nothing by its text alone: the listener has to be asked anew."""
    env = with_protocol(llm_dec_pomdp.make("relay-v0"), "sequential")

    def say(agent: str, history: Sequence[Message]) -> str:
        word = "red|green|blue|black"
        found = re.findall(rf"is ({word})" if agent != "agent_2" else rf"\]\n({word})", history[-1].text)
        return found[0] if found else "pass"

    numbers = moved(env, Scripted(say), 1)
    assert numbers["speaker 1 moves"] > 40 and numbers["speaker 2 moves"] > 40
    silent = moved(llm_dec_pomdp.make("relay-v0"), Uniform(lambda agent, history: ("red", "green")), 1)
    assert silent["speaker 1 moves"] == 0 < silent["listener moves"]
    assert moved(with_protocol(env, "centralized"), Scripted(say), 1) == {}


def test_training_and_the_report_say_so(tmp_path: Path) -> None:
    lines: list[str] = []

    class Told(Silent):
        def say(self, text: str) -> None:
            lines.append(text)

    values = {
        "name": "deaf",
        "environments": [f"{__name__}:Deaf"],
        "methods": ["magrpo"],
        "models": ["builtin:table"],
        "training": {"steps": 1, "prompts_per_step": 2, "group_size": 2},
        "evaluation": {"samples": 32},
    }
    folder = tmp_path / "run"
    with run_folder(folder):
        for cell in build(Suite, values, source="test").cells():
            run_cell(cell, folder / "cells" / cell.label, Told())
    write_report(folder)
    warned = "second changes the return by 0.0 points"
    assert [line for line in lines if "evaluate 0: warning" in line and warned in line]
    opening, _, _ = (folder / "report.md").read_text(encoding="utf-8").partition("\n## ")
    assert "Warning, magrpo" in opening and warned in opening
