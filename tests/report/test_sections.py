"""Sections of a report: regret by hand and in every output, and the suite and the section of examples/recipes."""

from __future__ import annotations

import math
import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from written_runs import report_and_texts

import llm_dec_pomdp
from llm_dec_pomdp.agents import Sampling
from llm_dec_pomdp.agents.io.load import load_team
from llm_dec_pomdp.benchmarks.cell import run_cell
from llm_dec_pomdp.benchmarks.runner import run_folder
from llm_dec_pomdp.benchmarks.suite import load_suite
from llm_dec_pomdp.envs.classics.base import Classic
from llm_dec_pomdp.envs.wrappers import with_protocol
from llm_dec_pomdp.evaluation.intervals import Estimate, Interval
from llm_dec_pomdp.evaluation.sections import all_sections, measure, sections
from llm_dec_pomdp.evaluation.sections.regret import Regret
from llm_dec_pomdp.report.findings import Findings
from llm_dec_pomdp.report.tables import cell, section_tables
from llm_dec_pomdp.results.lines import MethodResult
from llm_dec_pomdp.results.runs import read_run
from llm_dec_pomdp.rollout import Trajectories
from llm_dec_pomdp.types import Episode, Group, Turn

RECIPES = Path(__file__).parents[2] / "examples" / "recipes"
T_1, T_2 = 12.706204736, 4.302652730  # 97.5 % points of Student's t with one and two degrees of freedom


def doors(turns: int = 2) -> Classic:
    return llm_dec_pomdp.make("dectiger-v0", max_turns=turns)


def earned(*returns: float) -> Group:
    return Group("dectiger", tuple(Episode("dectiger", i, (Turn({}, {}, r),), True) for i, r in enumerate(returns)))


class Seed:
    """A finished cell whose episodes earned these returns at two doors."""

    def __init__(self, *returns: float) -> None:
        self.result = self
        self.summary = self
        self.measured = measure(doors(), [earned(*returns)]) if returns else {}

    def training(self) -> list[Any]:
        return []


def line(*seeds: Any) -> MethodResult:
    return MethodResult("dectiger-v0", "magrpo", "m", "magrpo", seeds, Estimate(0, 0, 0, len(seeds), 1), {})


# --- regret -----------------------------------------------------------------------------------------------------------


def test_the_regret_of_two_episodes_by_hand() -> None:
    """The optimum is -4, the random team earns -92.4: two episodes of -10 and -14 lack 8."""
    measured = Regret("regret").measure(doors(), [earned(-10.0, -14.0, math.nan)])
    assert measured["optimum"] == -4.0
    assert measured["episodes"] == 2
    regret = cast("Interval", measured["regret"])
    assert (regret.mean, regret.low, regret.high) == pytest.approx((8.0, 8.0 - 2 * T_1, 8.0 + 2 * T_1))
    assert measured["scale"] == pytest.approx(2 * 416 / 9 - 4)  # of nine joint actions, 416 are lost in sum


def test_an_unknown_optimum_shows_none() -> None:
    assert measure(doors(7), [earned(-10.0, -14.0)]) == {}
    assert measure(with_protocol(doors(), "centralized"), [earned(-10.0, -14.0)]) == {}
    assert measure(llm_dec_pomdp.make("telegrams-v0"), [earned(0.5)]) == {}
    assert section_tables([line(Seed())]) == []


@pytest.mark.parametrize(
    ("seeds", "regret", "over"),
    [
        ([(-10.0, -14.0)], (8.0, 8.0 - 2 * T_1, 8.0 + 2 * T_1), "2 episodes, one seed"),
        ([(-5.0,), (-7.0,)], (2.0, math.nan, math.nan), "2 seeds, no interval"),
        ([(-5.0,), (-7.0,), (-6.0,)], (2.0, 2.0 - T_2 / math.sqrt(3), 2.0 + T_2 / math.sqrt(3)), "3 seeds"),
    ],
    ids=["one", "two", "three"],
)
def test_seeds_become_one_row(seeds: list[tuple[float, ...]], regret: tuple[float, ...], over: str) -> None:
    row = Regret("regret").show(line(*(Seed(*returns) for returns in seeds)).measured("regret"))
    value = cast("Interval", row["regret"])
    assert (value.mean, value.low, value.high) == pytest.approx(regret, nan_ok=True)
    assert cast("Interval", row["regret %"]).mean == pytest.approx(100 * regret[0] / (2 * 416 / 9 - 4))
    assert (row["over"], row["optimum"], row["return"]) == (over, -4.0, -4.0 - regret[0])


def test_the_scale_of_a_classic_is_from_the_random_team_to_the_optimum() -> None:
    assert doors(1).model.value_at_random(1) == pytest.approx(-416 / 9)
    for env_id in ("dectiger-v0", "broadcast-v0", "recycling-v0", "gridsmall-v0", "firefighting-v0", "boxpushing-v0"):
        for turns in (2, 3, 4, 5):
            env: Classic = llm_dec_pomdp.make(env_id, max_turns=turns)
            assert env.facts.score_scale.low < env.facts.score_scale.high
            if env.facts.optimum is not None:
                assert env.facts.score_scale.percent(env.facts.optimum) == pytest.approx(100)


@pytest.mark.slow
def test_intervals_over_episodes_cover_the_exact_return() -> None:
    """That of the random team is known from the tables; of 60 intervals about 57 hold it."""
    env: Classic = llm_dec_pomdp.make("broadcast-v0", max_turns=2)
    menus = {agent: env.choices(agent) for agent in env.possible_agents}
    team = load_team(env.possible_agents, "builtin:table", menus=menus)
    played = Trajectories("own").play(env, team, ["broadcast"] * 60, range(60), Sampling(max_new_tokens=1), 20)
    assert env.facts.optimum is not None
    exact = env.facts.optimum - env.model.value_at_random(2)
    regrets = [measure(env, [group])["regret"]["regret"] for group in played]
    assert sum(interval.low <= exact <= interval.high for interval in regrets) >= 52
    assert sum(interval.mean for interval in regrets) / 60 == pytest.approx(exact, abs=0.08)


# --- the suite and the section of the recipes ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The suite, made shorter, run with the section."""
    place = tmp_path_factory.mktemp("page")
    before = dict(vars(sections)["_specs"])
    runpy.run_path(str(RECIPES / "section.py"))
    with run_folder(place / "run"):
        for cell in load_suite(str(RECIPES / "two_doors.toml"), ["training.steps=2", "evaluation.samples=10"]).cells():
            run_cell(cell, place / "run" / "cells" / cell.label)
    yield place / "run"
    vars(sections)["_specs"] = before


@pytest.fixture(scope="module")
def outputs(run: Path) -> tuple[Findings, dict[str, str]]:
    """What the report finds, and what every output says of it, without tags, frames and line breaks."""
    return report_and_texts(run)


@pytest.mark.slow
def test_every_output_shows_the_regret_and_the_section_of_the_page(outputs: tuple[Findings, dict[str, str]]) -> None:
    found, texts = outputs
    assert [line["method"] for line in found.to_dict()["lines"]] == ["magrpo", "random"]
    for line in found.to_dict()["lines"]:
        regret = line["sections"]["regret"]
        assert regret["regret"]["mean"] == pytest.approx(-4.0 - regret["return"])
        assert regret["regret %"]["mean"] == pytest.approx(100 - line["return_percent"]["mean"])
        value = cell(Interval(**regret["regret"]), 3)
        assert 1.0 <= line["sections"]["acme/words"]["explorer 1"] <= 2.0  # "listen", or "open left"
        words = f"{line['method']} " + " ".join(f"{v:.1f}" for v in line["sections"]["acme/words"].values())
        assert str(round(regret["return"], 2)) in texts["terminal"]
        for name in ("report.md", "report.html"):
            text = texts[name]
            assert f" {line['method']} -4.000 {regret['return']:.3f} {value} " in text, name
            assert f" {words} " in text, name
            assert "Words per text" in text, name


def test_a_section_is_found_again_by_its_name(run: Path) -> None:
    names = ["regret", "at_k", "orchestration", "influence", "injection", "acme/words"]
    assert [section.name for section in all_sections()] == names
    [result, *_] = read_run(run).results
    assert set(result.summary.measured) == {"regret", "acme/words"}
    assert "sections" not in result.to_dict()["summary"]
