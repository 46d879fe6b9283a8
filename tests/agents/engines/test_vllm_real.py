"""Real vLLM, as a server or in this process, against the own engine: what it draws, and what is learnt from it.

    nox -s vllm -- MODEL ENVIRONMENT

starts a server that takes adapters, then one that takes all weights, and runs the test of either; then both without a
server. LLM_DEC_POMDP_VLLM_MODEL is the folder of the model, LLM_DEC_POMDP_VLLM the address of a server that has it.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import os
import statistics
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from fake_vllm import AGENTS, flat, only_policy, truncated_logprobs

import llm_dec_pomdp
from llm_dec_pomdp.agents.base import Sampling
from llm_dec_pomdp.agents.engines import Prompt
from llm_dec_pomdp.agents.io.load import load_team
from llm_dec_pomdp.agents.language_model.policy import LanguageModel
from llm_dec_pomdp.algorithms.magrpo import MAGRPO, MAGRPOConfig
from llm_dec_pomdp.rollout import Trajectories
from llm_dec_pomdp.types import Completion, Episode, Group

URL, MODEL = os.environ.get("LLM_DEC_POMDP_VLLM"), os.environ.get("LLM_DEC_POMDP_VLLM_MODEL", "")
HERE = not URL and importlib.util.find_spec("vllm") is not None
pytestmark = [
    pytest.mark.filterwarnings("default"),  # those of vLLM
    pytest.mark.slow,
    pytest.mark.skipif(not MODEL or not (URL or HERE), reason="needs vLLM: nox -s vllm -- MODEL ENVIRONMENT"),
]
SHORT = Sampling(max_new_tokens=24)
STEPS = 2
MEAN_GAP, LARGEST_GAP = 1e-4, 1e-3  # nats, of log-probabilities in float32
DIFFERENCE = 0.01  # of two steps in the weights, relative: Adam gives tiny gradients the step of large ones


def engine(folder: Path) -> dict[str, str]:
    """The options of the engine that is tried."""
    if HERE:
        return {"kind": "vllm-colocate"}
    return {"kind": "vllm", "url": str(URL), "model": "base", "adapters": str(folder)}


def as_of(group: Group, policy: LanguageModel, gaps: list[float]) -> Group:
    """The same texts with the log-probabilities that a policy gives them; what they differ by is noted."""

    def with_own_logprobs(agent: str, drawn: Completion) -> Completion:
        with torch.inference_mode():
            logprobs, _ = policy.token_logprobs([(agent, drawn)], SHORT.temperature)
        known = tuple(logprobs[0].tolist())
        gaps.extend(there - here for there, here in zip(drawn.logprobs, known, strict=True))
        return dataclasses.replace(drawn, logprobs=known)

    def played(episode: Episode) -> Episode:
        turns = [
            dataclasses.replace(
                turn, actions={agent: with_own_logprobs(agent, drawn) for agent, drawn in turn.actions.items()}
            )
            for turn in episode.turns
        ]
        return dataclasses.replace(episode, turns=tuple(turns))

    return dataclasses.replace(group, episodes=tuple(map(played, group.episodes)))


def texts_of(groups: Sequence[Group]) -> list[str]:
    episodes = [episode for group in groups for episode in group.episodes]
    return [c.text for episode in episodes for turn in episode.turns for c in turn.actions.values()]


@pytest.mark.parametrize("sharing", ["lora"])
def test_truncated_draws_have_the_log_probabilities_of_the_own_truncation(sharing: str, tmp_path: Path) -> None:
    there = load_team(AGENTS, MODEL, engine=engine(tmp_path), sharing=sharing, device="cpu", dtype="float32")
    policy, env = only_policy(there), llm_dec_pomdp.make("tldr-v0")
    sampling = Sampling(temperature=0.7, top_p=0.6, top_k=50, max_new_tokens=24)
    groups = Trajectories().play(env, there, [env.items[0].id], [5], sampling, 4)
    gaps: list[float] = []
    for turn in (turn for episode in groups[0].episodes for turn in episode.turns):
        for agent, drawn in turn.actions.items():
            prompt = Prompt(list(drawn.prompt_ids), [0], (policy.adapters or {})[agent])
            with torch.inference_mode():
                known = truncated_logprobs(policy.model, prompt, list(drawn.token_ids), sampling)
            gaps += [abs(a - b) for a, b in zip(drawn.logprobs, known, strict=True)]
    print(json.dumps({"truncated_tokens": len(gaps), "mean_gap": statistics.fmean(gaps), "largest": max(gaps)}))  # noqa: T201
    assert statistics.fmean(gaps) < MEAN_GAP


@pytest.mark.parametrize(("sharing", "rate", "posts"), [("lora", 1e-3, 2), ("shared", 1e-5, 1)])
def test_two_steps_of_training_equal_those_of_the_own_engine(
    sharing: str, rate: float, posts: int, tmp_path: Path
) -> None:
    """The texts of vLLM, learnt from with its log-probabilities and the correction, and with the model's own."""
    env = llm_dec_pomdp.make("tldr-v0")
    options = {"sharing": sharing, "device": "cpu", "dtype": "float32"}
    there, here = load_team(AGENTS, MODEL, engine=engine(tmp_path), **options), load_team(AGENTS, MODEL, **options)
    first = flat(here)
    learners = [MAGRPO(team, SHORT, MAGRPOConfig(learning_rate=rate)) for team in (there, here)]
    gaps: list[float] = []
    tasks = [item.id for item in env.items[:posts]]
    for step in range(STEPS):
        groups = Trajectories().play(env, there, tasks, [step, step + 100][:posts], SHORT, 4)
        learners[1].update([as_of(group, only_policy(here), gaps) for group in groups])
        learners[0].update(groups)
    learnt = (flat(here) - first).norm()
    difference = float((flat(there) - flat(here)).norm() / learnt)
    sizes = [abs(gap) for gap in gaps]
    mean, largest = statistics.fmean(sizes), max(sizes)

    only_policy(there).load_state_dict(only_policy(here).state_dict())
    greedy = Sampling(temperature=0.0, max_new_tokens=24)
    texts = [texts_of(Trajectories().play(env, team, tasks, [0, 1][:posts], greedy, 1)) for team in (there, here)]
    equal = sum(a == b for a, b in zip(*texts, strict=True))
    measured = {
        "sharing": sharing,
        "tokens": len(sizes),
        "mean_gap": mean,
        "largest_gap": largest,
        "difference_of_weights": difference,
        "norm_of_what_was_learnt": float(learnt),
        "equal_greedy_texts": f"{equal} of {len(texts[0])}",
    }
    print(json.dumps(measured))  # noqa: T201  # the figures of docs/results/archive/speed.md#vllm
    assert learnt > 0
    assert mean < MEAN_GAP
    assert largest < LARGEST_GAP
    assert difference < DIFFERENCE
    assert texts[0] == texts[1]
