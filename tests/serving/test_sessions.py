"""States of sessions and their limits."""

from __future__ import annotations

import time
import tracemalloc
from typing import Any

import pytest

from llm_dec_pomdp.envs import make
from llm_dec_pomdp.serving.sessions import WEIGHT, Limits, RefusedError, Session, Sessions


@pytest.fixture(scope="module")
def served() -> Any:
    return make("telegrams-v0", max_turns=2)


def refused(code: str, named: str) -> Any:
    return pytest.raises(RefusedError, match=named, check=lambda error: error.code == code)


def test_the_least_recently_used_state_is_dropped_first_and_the_initial_one_never(served: Any) -> None:
    session = Session("name", served, 3 * WEIGHT)
    first, second, third = (session.keep(served) for _ in "123")
    session.copy(first)
    fourth = session.keep(served)
    with refused("SESSION_ERROR", f"state {second} "):
        session.copy(second)
    for number in (0, first, third, fourth):
        session.copy(number)
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
        now = after(now, f"{text}{turn}")  # every later state has it in its history
    session.keep(now)
    before = session.bytes
    assert before > 900_000
    numbers = [session.keep(now.fork()) for _ in range(5)]
    assert session.bytes < before + 5 * 2 * WEIGHT
    session.forget(numbers)
    assert session.bytes == before
    for turn in range(9, 50):
        now = after(now, f"{text}{turn}")
    with refused("EXECUTION_ERROR", "4 MiB"):
        session.keep(now)
    assert session.bytes == before


@pytest.mark.slow
def test_a_session_of_many_turns_holds_no_more_than_its_budget() -> None:
    env = make("telegrams-v0", max_turns=3000)
    sessions = Sessions(env, Limits(megabytes=1))
    session = sessions.join()
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
    small, large = sessions.join(), sessions.join()
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
    first, second = sessions.join(), sessions.join()
    with refused("CAPACITY_REACHED", "2"):
        sessions.join()
    now = 8.0
    sessions.find(first.name)
    now = 15.0
    assert len(sessions) == 1
    with refused("SESSION_ERROR", "session"):
        sessions.find(second.name)
    sessions.leave(first)
    assert len(sessions) == 0


def test_a_named_session_without_connections_makes_room(served: Any) -> None:
    sessions, names = Sessions(served, Limits(sessions=2)), [letter * 16 for letter in "abc"]
    first, second = (sessions.join(name) for name in names[:2])
    sessions.leave(first)
    assert sessions.join(names[2]) is not first
    assert sessions.find(second.name) is second
    with refused("SESSION_ERROR", "session"):
        sessions.find(first.name)


def test_a_session_has_a_limited_number_of_connections(served: Any) -> None:
    sessions = Sessions(served, Limits(sessions=1))
    for _ in range(258):
        sessions.join("a" * 16)
    with refused("CAPACITY_REACHED", "258"):
        sessions.join("a" * 16)


@pytest.mark.parametrize("name", ["sessions", "megabytes", "idle", "total_megabytes"])
def test_a_limit_of_zero_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} is 0"):
        Limits(**{name: 0})
