"""Who works at the same time: models of like size, with their shares of the cores, and policies on several devices."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from models import AGENTS, group, language_model, match, network, same, separate_team, tokenizer, weights

from llm_dec_pomdp.agents import Request, Sampling, Scripted, Team
from llm_dec_pomdp.agents.concurrency import run_parallel
from llm_dec_pomdp.agents.language_model.policy import LanguageModel
from llm_dec_pomdp.algorithms.magrpo import MAGRPO, MAGRPOConfig
from llm_dec_pomdp.rollout import Trajectories
from llm_dec_pomdp.types import Completion, conversation


@pytest.fixture
def cores() -> Iterator[Callable[[int], None]]:
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


def loaded(*loads: int) -> list[Any]:
    return [SimpleNamespace(accelerator=None, processor_load=load) for load in loads]


def seen() -> tuple[str, int]:
    """Where a piece of work is done, and with how many threads."""
    return threading.current_thread().name, torch.get_num_threads()


SAYS = Scripted(lambda agent, history: "x")
MAIN = threading.main_thread().name


@pytest.mark.parametrize(("threads", "models", "share"), [(2, 2, 1), (4, 2, 2), (4, 3, 1), (2, 3, 1), (5, 2, 2)])
def test_models_of_like_size_divide_the_cores(cores: Any, threads: int, models: int, share: int) -> None:
    cores(threads)
    places = run_parallel(loaded(*[100] * models), [seen] * models)
    assert all(name != MAIN and used == share for name, used in places)
    assert torch.get_num_threads() == threads


def test_two_models_really_work_at_the_same_time(cores: Any) -> None:
    cores(2)
    both = threading.Barrier(2, timeout=20)
    assert sorted(run_parallel(loaded(100, 150), [both.wait, both.wait])) == [0, 1]


@pytest.mark.parametrize("loads", [(100,), (100, 201), (100, 0), (0, 0)])
def test_models_of_other_sizes_work_in_turn_with_all_cores(cores: Any, loads: tuple[int, ...]) -> None:
    cores(2)
    assert run_parallel(loaded(*loads), [seen] * len(loads)) == [(MAIN, 2)] * len(loads)


def test_on_one_core_and_without_a_model_work_is_done_in_turn(cores: Any) -> None:
    cores(1)
    assert run_parallel(loaded(100, 100), [seen, seen]) == [(MAIN, 1)] * 2
    cores(2)
    assert run_parallel([SAYS, SAYS], [seen, seen]) == [(MAIN, 2)] * 2


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
        run_parallel(loaded(1, 1), [fails, works])
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


# --- several devices, which are names here --------------------------------------------------------------------------


def on(*devices: str | None) -> list[Any]:
    """Policies on devices; None is the processor."""
    return [SimpleNamespace(accelerator=device, processor_load=0) for device in devices]


def test_policies_on_different_devices_work_at_the_same_time() -> None:
    all_three = threading.Barrier(3, timeout=20)
    assert sorted(run_parallel(on("cuda:0", "cuda:1", None), [all_three.wait] * 3)) == [0, 1, 2]


def test_policies_on_one_device_work_in_turn_and_others_in_the_thread_that_asks() -> None:
    threads: list[Any] = []
    works = [lambda number=number: threads.append((number, threading.get_ident())) or number for number in range(5)]
    assert run_parallel(on("cuda:0", None, "cuda:1", "cuda:0", None), works) == [0, 1, 2, 3, 4]
    by_number = dict(threads)
    assert by_number[0] == by_number[3]
    assert by_number[1] == by_number[4] == threading.get_ident()
    assert by_number[0] != threading.get_ident()


def test_when_one_device_fails_the_others_finish_first() -> None:
    done = threading.Event()
    failed = threading.Event()

    def fail() -> None:
        failed.set()
        raise RuntimeError("lost")

    def finish() -> None:
        assert failed.wait(20)
        done.set()

    with pytest.raises(RuntimeError, match="lost"):
        run_parallel(on("cuda:0", "cuda:1"), [fail, finish])
    assert done.is_set()


def test_a_team_on_two_devices_generates_and_learns_at_the_same_time() -> None:
    """Two models that say they are elsewhere; each waits for the other in both."""

    class Elsewhere(LanguageModel):
        both = threading.Barrier(2, timeout=20)

        def generate(self, requests: Any, sampling: Sampling) -> list[list[Completion]]:
            self.both.wait()
            return super().generate(requests, sampling)

        def token_logprobs(self, samples: Any, temperature: float) -> Any:
            self.both.wait()
            return super().token_logprobs(samples, temperature)

    members = {agent: Elsewhere(network(seed), tokenizer()) for seed, agent in enumerate(AGENTS)}
    for number, policy in enumerate(members.values()):
        policy.accelerator = f"cuda:{number}"
    team = Team(members)
    groups = Trajectories().play(match(), team, ["t0"], [1], SAMPLING, 4)
    for number, episode in enumerate(groups[0].episodes):
        object.__setattr__(episode.turns[0], "reward", float(number % 2))
    assert MAGRPO(team, SAMPLING, MAGRPOConfig()).update(groups)["skipped"] == 0
