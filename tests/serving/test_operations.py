"""What a server holds, what may be asked of it, and what not."""

from __future__ import annotations

import time
import tracemalloc
from typing import Any

import pytest

from llm_dec_pomdp.envs import make
from llm_dec_pomdp.envs.tasks import item_as_json
from llm_dec_pomdp.serving.operations import OPERATIONS, run
from llm_dec_pomdp.serving.sessions import WEIGHT, Limits, RefusedError, Session, Sessions


@pytest.fixture(scope="module")
def served() -> Any:
    return make("telegrams-v0", max_turns=2)


def asking(env: Any, **limits: Any) -> Any:
    """`ask(name, **fields)` in one new session."""
    sessions = Sessions(env, Limits(**limits))
    name = run("open", sessions, {})["session"]
    return lambda operation, **fields: run(operation, sessions, {"session": name, "place": 0, **fields})


def refused(status: int, reason: str) -> Any:
    return pytest.raises(RefusedError, match=reason)


def test_the_same_request_twice_has_the_same_answer(served: Any) -> None:
    ask = asking(served)
    begun = ask("reset", seed=3)
    texts = dict.fromkeys(served.possible_agents, "meet at noon")
    once, twice = (ask("step", place=begun["place"], texts=texts) for _ in "12")
    assert once.pop("place") != twice.pop("place")
    assert once == twice
    assert ask("reset", seed=3)["outcome"] == begun["outcome"]


@pytest.mark.parametrize(
    ("operation", "fields", "status", "reason"),
    [
        ("os:system", {}, 404, "there is nothing at"),
        ("../../etc/passwd", {}, 404, "there is nothing at"),
        ("reset", {"task_id": "../../etc/passwd"}, 404, "no task '../../etc/passwd'"),
        ("reset", {"index": 10**6}, 404, "is not in 0"),
        ("reset", {"seed": "0"}, 400, "'seed' is '0'; it is of the type int"),
        ("reset", {"seed": True}, 400, "'seed' is True"),
        ("reset", {"seed": -1}, 422, "raised Error"),
        ("reset", {"max_turns": 0}, 422, "max_turns is 0"),
        ("reset", {"place": 77}, 410, "number 77 is not held any more"),
        ("step", {"texts": {}}, 422, "has not begun"),
        ("step", {"texts": {"agent_0": 1}}, 400, "for 'agent_0'; give text"),
        ("step", {}, 400, "'texts' is missing"),
        ("with_tasks", {"rows": [{"id": "os:system", "reference": [], "fields": {}}]}, 422, "no task of the server"),
        ("with_tasks", {"rows": ["x"]}, 400, "'id' is missing"),
        ("adopt", {"of": "guessed"}, 410, "does not know this session"),
    ],
)
def test_what_is_asked_wrongly_is_refused_with_a_sentence(
    served: Any, operation: str, fields: dict[str, Any], status: int, reason: str
) -> None:
    with pytest.raises(RefusedError, match=reason) as caught:
        asking(served)(operation, **fields)
    assert caught.value.status == status


@pytest.mark.parametrize("change", [{"corpus": "/etc/passwd"}, {"corpus": "world:1", "new": "x"}])
def test_a_field_that_is_not_for_the_reward_alone_stays_the_servers(change: dict[str, str]) -> None:
    env = make("research-v0")
    row = {"id": env.items[0].id, "prompt": env.items[0].prompt, "split": env.items[0].split, "reference": []}
    ask = asking(env)
    with pytest.raises(RefusedError, match=r"is another than the server's"):
        ask("with_tasks", rows=[{**row, "fields": change}])
    assert ask("with_tasks", rows=[{**row, "fields": {"answer": "another"}}])["place"]


@pytest.mark.parametrize("env_id", ["humaneval-v0", "humaneval-v1", "coophumaneval-v1", "mbpp-v0"])
def test_a_judge_that_all_clients_share_runs_no_tests_of_one(env_id: str) -> None:
    env = make(env_id)
    row = item_as_json(env.items[0])
    ask = asking(env)
    for change in ({"test": "def check(candidate):\n    pass\n"}, {"test": row["fields"]["test"] + "\n# a comment"}):
        with refused(422, "'test' of task .* is another than the server's"):
            ask("with_tasks", rows=[{**row, "fields": {**row["fields"], **change}}])
    assert ask("with_tasks", rows=[{**row, "reference": ["another", "pair"]}])["place"]
    assert run("open", Sessions(env, Limits()), {})["description"]["facts"]["hidden_fields"] == []


def test_tasks_come_in_pages(served: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("llm_dec_pomdp.serving.operations._PAGE", 1)
    page = asking(served)("tasks", first=2)
    assert ([row["id"] for row in page["rows"]], page["number"]) == ([served.items[2].id], len(served.items))


def test_what_was_used_longest_ago_goes_first_and_the_beginning_never(served: Any) -> None:
    session = Session("name", served, 3 * WEIGHT)
    first, second, third = (session.keep(served) for _ in "123")
    session.copy(first)
    fourth = session.keep(served)
    with refused(410, f"number {second} is not held"):
        session.copy(second)
    for place in (0, first, third, fourth):
        session.copy(place)
    session.forget([third, 0, 99])
    assert len(session) == 2
    session.forget([first, fourth])
    assert (len(session), session.bytes) == (0, 0)


def after(env: Any, text: str) -> Any:
    """A copy of an environment, a turn later."""
    twin = env.fork()
    twin.step(dict.fromkeys(twin.agents, text))
    return twin


def test_a_text_is_counted_once_for_as_long_as_it_is_held() -> None:
    now = make("telegrams-v0", max_turns=100)
    now.reset(seed=0)
    session, text = Session("name", now, 4 << 20), "x" * 100_000
    for turn in range(9):
        now = after(now, f"{text}{turn}")  # of which every later state has a copy in its history
    session.keep(now)
    before = session.bytes
    assert before > 900_000
    places = [session.keep(now.fork()) for _ in range(5)]
    assert session.bytes < before + 5 * 2 * WEIGHT
    session.forget(places)
    assert session.bytes == before
    for turn in range(9, 50):
        now = after(now, f"{text}{turn}")
    with refused(413, "more texts than a session may hold, 4 MiB"):
        session.keep(now)
    assert session.bytes == before


@pytest.mark.slow
def test_a_session_of_many_turns_holds_no_more_than_its_budget() -> None:
    env = make("telegrams-v0", max_turns=3000)
    sessions = Sessions(env, Limits(megabytes=1))
    session = sessions.open()
    env.reset(seed=0)
    tracemalloc.start()
    for _ in range(400):
        env = after(env, "a")
        sessions.keep(session, env)
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held < 2 << 20


def test_all_sessions_together_have_a_budget_and_the_largest_loses_first(served: Any) -> None:
    sessions = Sessions(served, Limits(total_megabytes=1))
    small, large = sessions.open(), sessions.open()
    kept = sessions.keep(small, served)
    for _ in range(1000):
        sessions.keep(large, served)
    assert small.bytes + large.bytes <= 1 << 20
    small.copy(kept)
    assert len(large) > 50


def test_sessions_are_counted_and_end_when_they_are_idle(served: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    sessions = Sessions(served, Limits(sessions=2, idle=10.0))
    first, second = sessions.open(), sessions.open()
    with refused(503, "its most sessions, 2"):
        sessions.open()
    now = 8.0
    sessions.find(first.name)
    now = 15.0
    assert len(sessions) == 1  # the second
    with refused(410, "does not know this session"):
        sessions.find(second.name)
    sessions.close(first.name)
    sessions.close(first.name)
    assert len(sessions) == 0


@pytest.mark.parametrize("name", ["sessions", "megabytes", "idle", "total_megabytes"])
def test_a_limit_is_more_than_nothing(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} is 0; it must be more than 0"):
        Limits(**{name: 0})


def test_the_table_names_no_more_than_the_page_of_the_module() -> None:
    assert set(OPERATIONS) == {
        *("open", "adopt", "close", "reset", "step", "facts", "tasks", "with_tasks", "alone"),
    }
