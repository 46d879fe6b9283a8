"""What suites of claims add to environments with candidates."""

from __future__ import annotations

import runpy
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from llm_dec_pomdp.agents import Sampling, Scripted
from llm_dec_pomdp.contrib.software.classes import candidates
from llm_dec_pomdp.envs.coding.schemes import SCHEMES
from llm_dec_pomdp.rollout import Trajectories

FOLDER = Path(__file__).resolve().parents[2] / "research" / "candidates"


def test_a_scripted_reviewer_suggests_the_references_as_often_as_it_should() -> None:
    reviewed = runpy.run_path(str(FOLDER / "reviewer.py"))["reviewed"]

    def is_right(q: float) -> list[bool]:
        env: Any = reviewed(right=q, split="train", max_turns=2)
        found: list[bool] = []
        for item in env.items:
            for number in range(5):
                env.reset(options={"task_id": item.id})
                observed, *_ = env.step(dict.fromkeys(env.agents, f"def aux(x):\n    return {number}\n"))
                pair = zip(observed.values(), item.reference, strict=True)
                same = {reference.strip() in str(text) for text, reference in pair}
                assert len(same) == 1
                found += same
        return found

    assert all(is_right(1.0)) and not any(is_right(0.0))
    assert 0.4 < fmean(is_right(0.6)) < 0.8
    with pytest.raises(ValueError, match="right is 2"):
        reviewed(right=2)


@pytest.mark.slow
def test_schemes_are_those_of_methods_whose_solution_calls_another_authors() -> None:
    env: Any = runpy.run_path(str(FOLDER / "schemes.py"))["classes"](split="all")
    shares: dict[str, Any] = {}
    for kind in ("gold", "fallback", "alone"):
        groups = []
        for item in env.items:
            texts = dict(zip(env.possible_agents, [of_kind[kind] for of_kind in candidates()[item.id]], strict=True))
            player = Scripted(lambda agent, _, texts=texts: texts[agent])
            groups += Trajectories().play(env, player, [item.id], [0], Sampling(), 1)
        shares[kind] = env.measure(groups)
    assert all(shares["gold"]["schemes"][f"{name} %"] > 0 for name in SCHEMES)
    assert sum(shares["gold"]["schemes"].values()) == pytest.approx(100)
    assert shares["gold"]["candidates"]["gold %"] == 100
    assert shares["fallback"]["schemes"]["fallback %"] > 90
    assert sum(shares["alone"]["schemes"].values()) < 10
