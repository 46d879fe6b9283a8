"""Models of like size work at the same time, each with its share of the cores, and nothing else changes."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from models import AGENTS, group, language_model, same, separate_team, weights

from llm_dec_pomdp.agents import Request, Sampling
from llm_dec_pomdp.agents.concurrency import side_by_side
from llm_dec_pomdp.algorithms.magrpo import MAGRPO, MAGRPOConfig
from llm_dec_pomdp.types import Completion, conversation


@pytest.fixture
def cores() -> Iterator[Callable[[int], None]]:
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


def loaded(*loads: int) -> list[Any]:
    return [SimpleNamespace(processor_load=load) for load in loads]


def seen() -> tuple[str, int]:
    """Where a piece of work is done, and with how many threads."""
    return threading.current_thread().name, torch.get_num_threads()


MAIN = threading.main_thread().name


@pytest.mark.parametrize(("threads", "models", "share"), [(2, 2, 1), (4, 2, 2), (4, 3, 1), (2, 3, 1), (5, 2, 2)])
def test_models_of_like_size_divide_the_cores(cores: Any, threads: int, models: int, share: int) -> None:
    cores(threads)
    places = side_by_side(loaded(*[100] * models), [seen] * models)
    assert all(name != MAIN and used == share for name, used in places)
    assert torch.get_num_threads() == threads


def test_two_models_really_work_at_the_same_time(cores: Any) -> None:
    cores(2)
    both = threading.Barrier(2, timeout=20)
    assert sorted(side_by_side(loaded(100, 150), [both.wait, both.wait])) == [0, 1]


@pytest.mark.parametrize("loads", [(100,), (100, 201), (100, 0), (0, 0)])
def test_models_of_other_sizes_work_in_turn_with_all_cores(cores: Any, loads: tuple[int, ...]) -> None:
    cores(2)
    assert side_by_side(loaded(*loads), [seen] * len(loads)) == [(MAIN, 2)] * len(loads)


def test_on_one_core_and_without_a_model_work_is_done_in_turn(cores: Any) -> None:
    cores(1)
    assert side_by_side(loaded(100, 100), [seen, seen]) == [(MAIN, 1)] * 2
    cores(2)
    assert side_by_side([object(), object()], [seen, seen]) == [(MAIN, 2)] * 2


def test_results_come_in_order(cores: Any) -> None:
    cores(2)
    first_may_end = threading.Event()

    def first() -> str:
        assert first_may_end.wait(20)
        return "first"

    def second() -> str:
        first_may_end.set()
        return "second"

    assert side_by_side(loaded(1, 1), [first, second]) == ["first", "second"]


def test_an_error_comes_after_all_have_ended_and_the_cores_are_given_back(cores: Any) -> None:
    cores(2)
    interval = sys.getswitchinterval()
    ended: list[str] = []
    failed = threading.Event()

    def fails() -> None:
        failed.set()
        raise RuntimeError("no more")

    def works() -> None:
        assert failed.wait(20)
        ended.append("works")

    with pytest.raises(RuntimeError, match="no more"):
        side_by_side(loaded(1, 1), [fails, works])
    assert ended == ["works"]
    assert torch.get_num_threads() == 2
    assert sys.getswitchinterval() == interval


SAMPLING = Sampling(max_new_tokens=6)
REQUESTS = [Request(agent, conversation("a question"), (1, 2, 3)) for agent in AGENTS]


def sampled(threads: int) -> list[list[Completion]]:
    """What two models answer."""
    torch.set_num_threads(threads)
    return separate_team(seed=3).generate(REQUESTS, SAMPLING)


def tokens(answers: Sequence[Sequence[Completion]]) -> list[list[tuple[tuple[int, ...], tuple[float, ...]]]]:
    """Ids and log-probabilities."""
    return [[(c.token_ids, c.logprobs) for c in completions] for completions in answers]


def trained(threads: int, answers: Sequence[Sequence[Completion]]) -> tuple[dict[str, float], Any]:
    """Metrics and weights of one update by two models."""
    torch.set_num_threads(threads)
    team = separate_team(seed=3)
    played = group([0.0, 1.0, 2.0], [dict(zip(AGENTS, joint, strict=True)) for joint in zip(*answers, strict=True)])
    metrics = MAGRPO(team, SAMPLING, MAGRPOConfig(learning_rate=1e-2)).update([played])
    return metrics, weights(team)


def test_two_models_speak_and_learn_the_same_in_turn_and_at_the_same_time(cores: Any) -> None:
    answers = sampled(1)
    assert tokens(sampled(2)) == tokens(answers)
    in_turn, together = trained(1, answers), trained(2, answers)
    assert in_turn[0] == together[0]
    assert same(in_turn[1], together[1])


def test_a_language_model_says_how_much_works_on_the_processor() -> None:
    model = language_model()
    assert model.processor_load == sum(p.numel() for p in model.model.parameters())
