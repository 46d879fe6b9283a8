"""Policies on different devices work at the same time; the devices are names here."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest
from models import AGENTS, match, network, tokenizer
from requests_of_agents import SHORT

from llm_dec_pomdp.agents import Sampling, Team
from llm_dec_pomdp.agents.concurrency import side_by_side
from llm_dec_pomdp.agents.transformers.language_model import LanguageModel
from llm_dec_pomdp.algorithms.magrpo import MAGRPO, MAGRPOConfig
from llm_dec_pomdp.rollout import Trajectories
from llm_dec_pomdp.types import Completion


def on(*devices: str | None) -> list[Any]:
    """Policies on devices; None is the processor."""
    return [SimpleNamespace(accelerator=device, processor_load=0) for device in devices]


def test_policies_on_different_devices_work_at_the_same_time() -> None:
    all_three = threading.Barrier(3, timeout=20)
    assert sorted(side_by_side(on("cuda:0", "cuda:1", None), [all_three.wait] * 3)) == [0, 1, 2]


def test_policies_on_one_device_work_in_turn_and_others_in_the_thread_that_asks() -> None:
    threads: list[Any] = []
    works = [lambda number=number: threads.append((number, threading.get_ident())) or number for number in range(5)]
    assert side_by_side(on("cuda:0", None, "cuda:1", "cuda:0", None), works) == [0, 1, 2, 3, 4]
    by_number = dict(threads)
    assert by_number[0] == by_number[3]
    assert by_number[1] == by_number[4] == threading.get_ident()
    assert by_number[0] != threading.get_ident()


def test_policies_on_one_device_need_no_threads() -> None:
    assert side_by_side(on("cuda:0", "cuda:0"), [threading.get_ident] * 2) == [threading.get_ident()] * 2


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
        side_by_side(on("cuda:0", "cuda:1"), [fail, finish])
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
    groups = Trajectories().play(match(), team, ["t0"], [1], SHORT, 4)
    for number, episode in enumerate(groups[0].episodes):
        object.__setattr__(episode.turns[0], "reward", float(number % 2))
    assert MAGRPO(team, SHORT, MAGRPOConfig()).update(groups)["skipped"] == 0
