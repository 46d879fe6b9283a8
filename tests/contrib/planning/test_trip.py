"""trip-v0: rewards of trips, invalid proposals, and the effects of answers."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

import llm_dec_pomdp
from llm_dec_pomdp.contrib.planning.trip import possible, read_events, refused
from llm_dec_pomdp.envs.tasks import TaskError

EVENTS = """\
harbour boat quiet 9-11 10
abbey museum quiet 11-12 5
market food music 12-14 20
tower view museum 10-13 1"""
ROW = {"prompt": "A day.", "wishes": "museum 5 food 3 boat 2 budget 35", "events": EVENTS}
BEST, POOR = "PROPOSE harbour, abbey, market", "PROPOSE tower, market, abbey"


def play(*turns: tuple[str, str], **row: str) -> tuple[list[float], Any]:
    """Return the reward of each turn, given the texts of traveller and guide, after a first turn of empty texts."""
    env: Any = llm_dec_pomdp.make("trip-v0", tasks=[{**ROW, **row}])
    env.reset(seed=0)
    paid = [env.step(dict(zip(env.agents, texts, strict=True)))[1]["agent_0"] for texts in (("", ""), *turns)]
    return paid[1:], env


@pytest.mark.parametrize(
    ("row", "worth"),
    [({}, 1.0), ({"wishes": "museum 5 food 3 boat 2 budget 34", "events": EVENTS + "\ngarden food boat 14-15 1"}, 0.0)],
)
def test_a_trip_that_was_proposed_before_pays_its_wishes_within_the_budget(row: dict[str, str], worth: float) -> None:
    paid, env = play(("", BEST), ("I ACCEPT it", "PROPOSE harbour abbey market"), **row)
    assert paid == pytest.approx([-0.05, worth])
    assert env.agents == []


def test_a_poorer_trip_pays_its_share() -> None:
    events = EVENTS.replace("abbey museum quiet", "abbey view quiet") + "\ngarden museum food 14-15 1"
    paid, env = play(("", BEST), ("ACCEPT", ""), events=events)
    assert paid[-1] == pytest.approx(5 / 10)  # food and boat, where museum can be had too
    assert env.last_score.components["plan"] == paid[-1]


@pytest.mark.parametrize(
    ("turn", "reader", "answer"),
    [
        (("ACCEPT", BEST), "agent_0", "There is no proposal to answer. The guide proposes harbour abbey market"),
        (("", POOR), "agent_1", "The tower ends at 13, after the market begins at 12."),
        (("", "PROPOSE harbour, abbey, abbey"), "agent_1", "The abbey is proposed twice."),
        (("", "PROPOSE harbour, abbey, castle"), "agent_1", "There is no castle today."),
        (("", "PROPOSE the moon"), "agent_1", "PROPOSE needs three of harbour, abbey"),
        (
            ("", "no, propose Abbey, abbey, abbey: " + BEST.lower()),
            "agent_0",
            "The guide proposes harbour abbey market",
        ),
        ((BEST, ""), "agent_1", f"Traveller: {BEST}"),  # only the guide proposes
        (("", "ACCEPT"), "agent_0", "Guide: ACCEPT"),
        (("maybe I accept", ""), "agent_1", "Traveller: maybe I accept"),
    ],
)
def test_whatever_is_no_proposal_or_answer_is_told(turn: tuple[str, str], reader: str, answer: str) -> None:
    paid, env = play(turn)
    assert paid == [-0.05]
    assert answer in env.history(reader)[-1].text


def test_a_rejected_trip_does_not_stand() -> None:
    paid, env = play(("", BEST), ("REJECT", ""), ("ACCEPT", ""))
    assert paid == [-0.05] * 3
    assert "The traveller says REJECT." in [line for m in env.history("agent_1") for line in m.text.splitlines()]
    assert env.history("agent_0")[-1].text.startswith("Guide: -\nThere is no proposal to answer.")


def test_trips_are_the_ordered_triples_that_do_not_overlap() -> None:
    events = read_events(EVENTS)
    assert possible(events) == [("harbour", "abbey", "market")]
    assert all(refused(events, trip) for trip in itertools.permutations(events, 3) if trip not in possible(events))


def test_tasks_may_share_lists_of_events_whose_best_trips_differ() -> None:
    env: Any = llm_dec_pomdp.make("trip-v0", wishes=3, events=4, lists=2, count=12, split="all")
    lists = {(item.split, item.fields["events"]) for item in env.items}
    assert [sum(split == name for split, _ in lists) for name in ("train", "test")] == [2, 2]
    assert all(len(possible(read_events(item.fields["events"]))) > 1 for item in env.items)


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ({"wishes": "museum 5"}, "field 'wishes': 'museum 5'"),
        ({"wishes": "budget 9"}, "field 'events': no three events"),
        ({"events": EVENTS.replace("9-11", "nine")}, "field 'events': 'harbour boat quiet nine 10'"),
        ({"events": EVENTS.replace("tower", "castle")}, "field 'events': has 'castle'"),
        ({"events": EVENTS.replace("harbour boat quiet 9-11", "harbour boat quiet 9-15")}, "no three events"),
        ({"events": "\n".join([EVENTS] * 3)}, "field 'events' .* 60 words"),
    ],
)
def test_days_that_do_not_fit_are_named(row: dict[str, str], problem: str) -> None:
    with pytest.raises(TaskError, match=problem):
        llm_dec_pomdp.make("trip-v0", tasks=[{**ROW, **row}])
