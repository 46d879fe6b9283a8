"""document-v0: scores computed by hand, the turns of writers and editor, and values by enumeration."""

from __future__ import annotations

import itertools
from statistics import fmean
from typing import Any

import pytest

import llm_dec_pomdp
from llm_dec_pomdp.agents import Sampling, Scripted
from llm_dec_pomdp.contrib.documents.document import KINDS, plan_of, statements
from llm_dec_pomdp.envs import TaskError
from llm_dec_pomdp.rollout import Trajectories

ROW = {
    "id": "a",
    "prompt": "Write.",
    "outline": "bridge: colour, month\ntower: colour, month",
    "notes": """1: The bridge is painted red.
1: The bridge opened in June.
1: The tower opened in July.
2: The tower is painted green.
2: The bridge is painted blue.""",
}
FIRST = "The bridge is painted red. The bridge opened in June."
SECOND = "It is green."


def make_document(**options: Any) -> Any:
    env = llm_dec_pomdp.make("document-v0", **{"tasks": [ROW], "writers": 2} | options)
    env.reset()
    return env


def act(env: Any, *texts: str) -> tuple[dict[str, str], float]:
    observations, rewards, *_ = env.step(dict(zip(env.agents, texts, strict=True)))
    return observations, rewards["agent_0"]


# --- the score --------------------------------------------------------------------------------------------------------


def test_a_value_belongs_to_the_subject_that_was_named_last() -> None:
    text = "Red! The TOWER, built of Stone, opened in july (the bridge in June)."
    assert statements(text, "bridge") == [
        ("bridge", "colour", "red"),
        ("tower", "material", "stone"),
        ("tower", "month", "July"),
        ("bridge", "month", "June"),
    ]
    assert statements("red, rosary") == []


@pytest.mark.parametrize(
    ("first", "second", "parts"),
    [
        ("", "", (0, 0, 0, 0, 0)),
        ("Blue, June.", "Green, July.", (1, 0, 0, 0, 0)),
        (FIRST, SECOND, (0.5, -0.25, 0, 0, 0)),  # red is the old value
        ("Red, blue, June.", "Green, July.", (1, -0.25, 0, 0, 0)),
        ("Blue, blue, June.", "Green. July. The bridge is blue.", (1, 0, -0.25, 0, 0)),
        ("June, blue.", "Green, July.", (1, 0, 0, -0.25, 0)),
        ("The tower opened in July. The bridge in June.", "Green. The bridge is blue.", (1, 0, 0, -0.5, 0)),
        ("Blue, June." + 34 * " word", "Green, July.", (1, 0, 0, 0, -0.25)),  # 12 of 48 words too many
        ("Blue." + 999 * " word", "", (0.25, 0, 0, 0, -1)),
        ("The garden is red and opened in May. Stone.", "", (0, 0, 0, 0, 0)),  # no facts of the outline
    ],
)
def test_a_document_is_scored_by_its_facts(first: str, second: str, parts: tuple[float, ...]) -> None:
    env = make_document()
    assert act(env, first, second, "")[1] == pytest.approx(sum(parts))
    assert tuple(env.last_score.components.values()) == pytest.approx(parts)


# --- turns ------------------------------------------------------------------------------------------------------------


def test_only_writers_of_returned_sections_act_again_and_see_the_note() -> None:
    env = make_document(max_turns=5)
    assert "tower opened in July" in env.history("agent_0")[0].text
    assert "blue" not in env.history("agent_0")[0].text
    observations, _ = act(env, FIRST, SECOND, "")
    assert observations["agent_0"] == observations["agent_1"] == ""
    assert f"bridge:\n{FIRST}\n\ntower:\n{SECOND}\n" in observations["agent_2"]
    observations, reward = act(env, "", "", "Tower: add July, please. " + 60 * "x ")
    assert reward == 0 and not env.asked("agent_0")
    assert observations["agent_1"].startswith("The editor sends your section back: add July, please. x x")
    assert observations["agent_1"].split().count("x") == 57
    assert act(env, "ignored", "Green, July.", "")[1] == pytest.approx(0.25)
    act(env, "", "", "All is well with the bridge and the tower.")
    assert not env.agents
    assert env.last_score.diagnostics == {"sent_back": 1.0}


def test_the_writers_of_a_foreign_note_know_no_value_an_old_one_or_the_same() -> None:
    env: Any = llm_dec_pomdp.make("document-v0", writers=4, facts=2, foreign=2)
    found: set[str] = set()
    for item in env.items:
        plan = plan_of(item.fields["outline"], item.fields["notes"])
        assert plan.newest().keys() == set(plan.facts)
        for place, notes in enumerate(plan.notes):
            foreign = [stated for stated in notes if stated[0] != plan.subjects[place]]
            assert len(foreign) == 2 and len({subject for subject, _, _ in foreign}) == 1
            for subject, kind, value in foreign:
                known = [v for s, k, v in plan.notes[plan.subjects.index(subject)] if (s, k) == (subject, kind)]
                found.add("missing" if not known else "known" if known == [value] else "old")
    assert found == {"missing", "known", "old"}


# --- values -----------------------------------------------------------------------------------------------------------


def returns(env: Any, script: str) -> list[float]:
    ids = [item.id for item in env.items]
    groups = Trajectories().play(env, Scripted(env.script(script)), ids, [0] * len(ids), Sampling())
    return [group.episodes[0].total for group in groups]


@pytest.mark.parametrize("candidates", [False, True])
@pytest.mark.parametrize("size", [{"writers": 2, "facts": 4, "foreign": 4}, {}, {"writers": 8}], ids=str)
def test_the_optimal_team_reaches_the_optimum_on_every_row(size: dict[str, Any], candidates: bool) -> None:
    env: Any = llm_dec_pomdp.make("document-v0", count=9, split="all", candidates=candidates, **size)
    assert returns(env, "optimal") == pytest.approx([1.0] * len(env.items))


@pytest.mark.parametrize(("script", "value"), [("own", 0.69), ("everything", 0.59)])
def test_teams_that_do_not_revise_receive_what_the_manual_says(script: str, value: float) -> None:
    assert fmean(returns(llm_dec_pomdp.make("document-v0"), script)) == pytest.approx(value, abs=0.005)


def test_the_best_drafts_that_the_editor_accepts_are_below_the_optimum_that_corrections_reach() -> None:
    env: Any = llm_dec_pomdp.make("document-v0", writers=2, count=6, candidates=True)
    without: list[float] = []
    for index in range(len(env.items)):
        accepted, best = list[float](), list[float]()
        for draft, edit, revision in itertools.product(itertools.product("ABC", repeat=2), "AB", "AB"):
            env.reset(options={"index": index})
            total = act(env, *draft, "")[1] + act(env, "", "", edit)[1]
            accepted += [total] if edit == "A" else []
            best.append(total + (act(env, revision, revision, "")[1] if env.agents else 0.0))
        assert max(best) == pytest.approx(1.0)
        without.append(max(accepted))
    assert fmean(returns(env, "own")) < fmean(without) < 0.8


# --- rows of users ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "text", "problem"),
    [
        ("outline", "bridge: colour\ntower: height", "'tower: height'"),
        ("outline", f"{ROW['outline']}\ngarden: colour", "give writers=3"),
        ("outline", "bridge: colour, material\ntower: colour", "material of the bridge"),
        ("notes", "3: The bridge is painted red.", "'3: The bridge is painted red.'"),
        ("notes", "1: The bridge is painted red and opened in June.", "no line such as"),
    ],
)
def test_rows_that_make_no_document_are_refused(field: str, text: str, problem: str) -> None:
    with pytest.raises(TaskError, match=problem):
        make_document(tasks=[{**ROW, field: text}])


def test_values_of_kinds_are_all_different() -> None:
    values = [value for _, of in KINDS.values() for value in of]
    assert len(set(values)) == len(values)
