"""Traces to test with: one episode of an environment under a protocol, played without a model."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import llm_dec_pomdp
from llm_dec_pomdp.agents import Policy, RandomText, Sampling, Scripted
from llm_dec_pomdp.agents.base import Request
from llm_dec_pomdp.envs.base import TextDecPOMDP
from llm_dec_pomdp.envs.registration import least_arguments
from llm_dec_pomdp.envs.wrappers import with_protocol
from llm_dec_pomdp.episodes import Header, Trace, from_episode
from llm_dec_pomdp.rollout import Trajectories
from llm_dec_pomdp.types import Completion, Group, Message

ROOT = Path(llm_dec_pomdp.__file__).parents[1]
EXAMPLE = ROOT / "tests" / "episodes" / "example_trace.json"


class Tokens(Policy):
    """Says what another policy says, as if a model had sampled it in as many seconds as it has words."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy

    def generate(self, requests: list[Request], sampling: Sampling) -> list[list[Completion]]:
        return [[_sampled(c.text) for c in answers] for answers in self._policy.generate(requests, sampling)]


def _sampled(text: str) -> Completion:
    ids = tuple(len(word) for word in text.split())
    return Completion(text, (1, 2), ids, tuple(-0.5 for _ in ids), truncated=len(ids) > 5, seconds=float(len(ids)))


def speaker(env: TextDecPOMDP) -> Policy:
    """Says what the optimal team does where that is known, else random words."""

    def say(agent: str, history: Sequence[Message]) -> str:
        try:
            return env.task.script("optimal")(agent, history)
        except (KeyError, ValueError):
            [[random]] = RandomText().generate([Request(agent, tuple(history), (len(history),))], Sampling())
            return random.text

    return Tokens(Scripted(say))


def played(
    env_id: str, protocol: str = "parallel", policy: Policy | None = None, **options: Any
) -> tuple[Group, Trace]:
    """A group of one episode of the first task, and its trace as a file has it."""
    options = {**least_arguments(env_id), **options}
    env = with_protocol(llm_dec_pomdp.make(env_id, **options), protocol)
    [group] = Trajectories("own").play(env, policy or speaker(env), [env.items[0].id], [3], Sampling())
    header = Header.of(env, env_id, options=options, protocol=protocol, models="a model", sampling=Sampling())
    trace = from_episode(group.episodes[0], header, env.items[0], token_ids=True)
    return group, json.loads(json.dumps(trace, allow_nan=False))
