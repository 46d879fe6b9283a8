"""Engines: who draws the texts of a model, with which weights, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from ahead import one_after_the_other
from ahead import trained as trained_ahead
from fake_vllm import AGENTS, SHORT, FakeVLLM, Letters, flat, only_policy, team_of, trained, truncated_logprobs
from models import ITEMS, match
from servers import Reply, Server

from llm_dec_pomdp.agents.base import Sampling
from llm_dec_pomdp.agents.engines import EngineError, Prompt, make_engine
from llm_dec_pomdp.agents.io.load import load_team
from llm_dec_pomdp.algorithms.magrpo import MAGRPO, MAGRPOConfig
from llm_dec_pomdp.config import ConfigError
from llm_dec_pomdp.rollout import Trajectories
from llm_dec_pomdp.training import TrainerConfig, restore, train
from llm_dec_pomdp.training.checkpoint import Checkpoints
from llm_dec_pomdp.types import Completion


@pytest.mark.parametrize(("sharing", "rate"), [pytest.param("lora", 1e-2, marks=pytest.mark.slow), ("shared", 1e-3)])
def test_training_with_a_server_is_training_with_the_own_loop(
    server: Server, vllm: FakeVLLM, tmp_path: Path, sharing: str, rate: float
) -> None:
    """Up to the rounding of batches that were drawn otherwise."""
    texts, there = trained(team_of(server, tmp_path, sharing), rate)
    wanted, here = trained(load_team(AGENTS, sharing=sharing), rate)
    assert texts == wanted
    assert (there - here).norm() < 0.01 * (here - flat(load_team(AGENTS, sharing=sharing))).norm()
    names = [name for order, name in vllm.orders if order == "load_lora_adapter"]
    if sharing == "shared":
        assert names == []
    else:  # every version under names of its own
        assert len(names) == len(set(names)) == 3 * len(AGENTS)
        assert sorted(vllm.loaded) == sorted(names[-2:]) == sorted(path.name for path in tmp_path.iterdir())


@pytest.mark.slow
def test_stop_strings_end_the_texts_of_a_server_as_those_of_the_own_loop(
    server: Server, vllm: FakeVLLM, tmp_path: Path
) -> None:
    sampling = Sampling(max_new_tokens=12, stop=("e", "a t"))
    there, here = (
        Trajectories().play(match(), team, ["t0"], [1], sampling, 8)[0]
        for team in (team_of(server, tmp_path), load_team(AGENTS, sharing="lora"))
    )
    drawn, wanted = ([e.turns[0].actions["agent_0"] for e in group.episodes] for group in (there, here))
    assert [(c.text, c.token_ids, c.truncated) for c in drawn] == [(c.text, c.token_ids, c.truncated) for c in wanted]
    assert not all(c.truncated for c in wanted)
    assert not any("e" in c.text for c in wanted)


def test_a_server_is_asked_for_no_id_without_a_token(server: Server, vllm: FakeVLLM, tmp_path: Path) -> None:
    team = team_of(server, tmp_path)
    for tokenless, wanted in ((None, None), (torch.tensor([5, 9]), {"5": -100.0, "9": -100.0})):
        only_policy(team).tokenless = tokenless
        before = len(server.asked)
        Trajectories().play(match(), team, ["t0"], [1], SHORT, 1)
        asked = [body for body in server.asked[before:] if "max_tokens" in body]
        assert [body.get("logit_bias") for body in asked] == [wanted] * len(AGENTS)


@pytest.mark.slow
def test_what_was_drawn_from_a_part_of_the_vocabulary_weighs_as_much_as_was_kept(
    server: Server, vllm: FakeVLLM, tmp_path: Path
) -> None:
    """The own loop draws the same; what it learns with the mass that it kept as weights is what is learnt here."""
    sampling = Sampling(temperature=0.8, top_p=0.7, top_k=9, max_new_tokens=6)
    weights: list[torch.Tensor] = []
    for team in (team_of(server, tmp_path), load_team(AGENTS, sharing="lora")):
        groups = Trajectories().play(Letters(ITEMS), team, ["t0"], [3], sampling, 4)
        policy, learner = (
            only_policy(team),
            MAGRPO(team, sampling, MAGRPO.Config(learning_rate=1e-2, importance="token")),
        )
        samples = learner.samples(groups)
        if weights:  # with its log-probabilities, which are those before truncation, less the mass that was kept
            samples = [replace(s, completion=_after(policy, s.agent, s.completion, sampling)) for s in samples]
        [updater] = learner.updaters
        updater.step(samples)
        weights.append(flat(team))
    assert not torch.equal(weights[0], flat(load_team(AGENTS, sharing="lora")))
    torch.testing.assert_close(*weights, atol=1e-4, rtol=0)


def _after(policy: Any, agent: str, drawn: Completion, sampling: Sampling) -> Completion:
    prompt = Prompt(list(drawn.prompt_ids), [0], policy.adapters[agent])
    after = truncated_logprobs(policy.model, prompt, list(drawn.token_ids), sampling)
    assert sum(after) > sum(drawn.logprobs)  # more than all tokens have before
    return replace(drawn, logprobs=tuple(after))


@pytest.mark.every(2)
@pytest.mark.parametrize("lost", [1, 2])  # one that somebody unloaded, or all of a server that was started anew
def test_adapters_that_a_server_lost_are_loaded_again(
    server: Server, vllm: FakeVLLM, tmp_path: Path, lost: int
) -> None:
    team = team_of(server, tmp_path)
    [first] = Trajectories().play(match(), team, ["t0"], [1], SHORT, 2)
    for _ in range(lost):
        vllm.loaded.popitem()  # and the weights are those that it had
    [again] = Trajectories().play(match(), team, ["t0"], [1], SHORT, 2)
    assert [e.turns[0].actions["agent_0"].text for e in first.episodes] == [
        e.turns[0].actions["agent_0"].text for e in again.episodes
    ]
    assert [order for order, _ in vllm.orders].count("load_lora_adapter") == 2 * len(AGENTS)


def test_weights_that_did_not_change_are_not_loaded_again(server: Server, vllm: FakeVLLM, tmp_path: Path) -> None:
    team = team_of(server, tmp_path)
    for seed in (1, 2):
        Trajectories().play(match(), team, ["t0"], [seed], SHORT, 2)
    policy = only_policy(team)
    assert len(vllm.orders) == len(vllm.loaded) == 2
    before = set(vllm.loaded)
    policy.load_state_dict({name: tensor + 1 for name, tensor in policy.state_dict().items()})
    Trajectories().play(match(), team, ["t0"], [3], SHORT, 2)
    assert len(vllm.loaded) == 2
    assert not before & set(vllm.loaded)  # those of the old weights are unloaded


@pytest.mark.slow
def test_a_server_sleeps_while_weights_are_updated_and_wakes_for_the_next_text(
    server: Server, vllm: FakeVLLM, tmp_path: Path
) -> None:
    vllm.sleeping = False
    texts, there = trained(team_of(server, tmp_path, sleep=True), 1e-2)
    vllm.sleeping = False
    wanted, here = trained(team_of(server, tmp_path), 1e-2)
    assert texts == wanted
    assert torch.equal(there, here)
    assert [order for order, _ in vllm.orders].count("sleep") == 3  # asleep it answers nothing with texts or weights


def test_a_server_without_sleep_is_refused_before_a_model_is_loaded(
    server: Server, vllm: FakeVLLM, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=r"404.*--enable-sleep-mode"):
        team_of(server, tmp_path, sleep=True)


@pytest.mark.slow
def test_an_engine_draws_beside_updates(server: Server, vllm: FakeVLLM, tmp_path: Path) -> None:
    wanted, _ = one_after_the_other(load_team(AGENTS, sharing="lora"), 1)
    texts, _, metrics = trained_ahead(team_of(server, tmp_path), 1)
    assert texts == wanted
    assert [m["staleness"] for m in metrics] == [0, 1, 1, 1]
    assert len(vllm.orders) == 2 * 5 + 2 * 4  # two adapters before the run and beside each update


ONE_TOKEN = {"token_ids": [5], "logprobs": {"token_logprobs": [-0.5]}}


@pytest.mark.every(2)
@pytest.mark.parametrize(
    ("answer", "named"),
    [
        (b"<html>", "2 tries"),
        (json.dumps({"model": "other", "choices": [ONE_TOKEN]}).encode(), "'other'"),
        (json.dumps({"choices": [ONE_TOKEN]}).encode(), "model"),
        (b'{"model": "MODEL", "choices": []}', "choices"),
        (b'{"model": "MODEL", "choices": [{"token_ids": [5, 6], "logprobs": {"token_logprobs": [-1]}}]}', "2 token"),
        (b'{"model": "MODEL", "choices": [{"token_ids": [5], "logprobs": {"token_logprobs": [NaN]}}]}', "finite"),
    ],
)
def test_what_is_no_text_of_these_weights_stops_the_run(
    server: Server, vllm: FakeVLLM, tmp_path: Path, answer: bytes, named: str
) -> None:
    def reply(body: dict[str, Any], number: int) -> Reply:
        if "prompt" in body:
            return 200, answer.replace(b"MODEL", body["model"].encode())
        return vllm.answer(server.paths[number], body)

    server.answer = reply
    with pytest.raises(EngineError, match=named):
        Trajectories().play(match(), team_of(server, tmp_path), ["t0"], [1], SHORT, 2)


def test_a_server_that_is_busy_for_a_moment_is_asked_again(server: Server, vllm: FakeVLLM, tmp_path: Path) -> None:
    def reply(body: dict[str, Any], number: int) -> Reply:
        return (503, b"busy") if number == 3 else vllm.answer(server.paths[number], body)

    server.answer = reply
    [group] = Trajectories().play(match(), team_of(server, tmp_path), ["t0"], [1], SHORT, 2)
    assert len(group.episodes) == 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sharing", "order", "loads"),
    [
        pytest.param("lora", "load_lora_adapter", 2 * len(AGENTS), marks=pytest.mark.slow),
        ("shared", "collective_rpc", 1 + 2),
    ],
)  # one to try it out, and two versions
def test_a_run_without_its_server_is_saved_and_goes_on_with_another(
    server: Server, vllm: FakeVLLM, tmp_path: Path, sharing: str, order: str, loads: int
) -> None:
    config = TrainerConfig(steps=3, prompts_per_step=1, group_size=4, save_every=0)

    def run(folder: str, answer: Callable[[dict[str, Any], int], Reply]) -> tuple[list[int], torch.Tensor]:
        server.answer = answer
        learner = MAGRPO(
            team_of(server, tmp_path / "adapters", sharing, tries=1), SHORT, MAGRPOConfig(learning_rate=0.01)
        )
        places, env, steps = Checkpoints(tmp_path / folder, {}), Letters(ITEMS), list[int]()
        done = restore(learner, env, places)
        train(learner, env, SHORT, config, 0, lambda step: steps.append(step.number), checkpoints=places, done=done)
        return steps, flat(learner.team)

    def there(body: dict[str, Any], number: int) -> Reply:
        return vllm.answer(server.paths[number], body)

    def gone_after_two_steps(body: dict[str, Any], number: int) -> Reply:
        given = [name for name, _ in vllm.orders].count(order)
        return (503, b"gone") if given > loads and "prompt" in body else there(body, number)

    with pytest.raises(EngineError, match="503"):
        run("stopped", gone_after_two_steps)
    vllm.start_anew()
    steps, weights = run("stopped", there)
    assert steps == [3]
    assert torch.equal(weights, run("whole", there)[1])


def test_what_the_server_cannot_do_is_refused(server: Server, vllm: FakeVLLM, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="adapters is ''"):
        team_of(server, "")
    team = team_of(server, tmp_path)
    with pytest.raises(ValueError, match="importance is 'none'"):
        MAGRPO(team, SHORT, MAGRPOConfig(importance="none"))
    assert only_policy(team).rollout_copy_differs


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "kind is None"),
        ({"kind": "vlm"}, "'vlm'"),
        ({"kind": "vllm", "url": "localhost", "model": "m"}, "http"),
        ({"kind": "vllm", "url": "http://h", "model": "m", "adaptors": "x"}, "adaptors"),
    ],
)
def test_wrong_options_are_told_before_anything_is_loaded(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make_engine(options)
