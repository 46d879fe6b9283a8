"""What a protocol costs and shows, as `collect` records it: seconds, tokens, scored turns, and every secret seen."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import pytest

from llm_dec_pomdp.agents import Policy, Request, Sampling, Team
from llm_dec_pomdp.envs.base import TextDecPOMDP
from llm_dec_pomdp.envs.facts import Facts
from llm_dec_pomdp.envs.tasks import TaskSource
from llm_dec_pomdp.envs.text_task import TextTask
from llm_dec_pomdp.envs.wrappers import Centralized, Discussion, Sequential
from llm_dec_pomdp.evaluation.metrics import summarise
from llm_dec_pomdp.rollout import Trajectories
from llm_dec_pomdp.types import Completion, Episode, Scale, Score, TaskItem

SAMPLING = Sampling(max_new_tokens=7)
AGENTS = ("agent_0", "agent_1", "agent_2")
ITEMS = tuple(TaskItem(f"t{i}", f"the post {i}") for i in range(3))


class Choir(TextTask):
    """Tells every agent a secret of its own at every turn; one point for every part that is about this turn."""

    declared = Facts(name="choir-v0", components=("parts",), score_range=(0.0, 3.0), best=3.5)
    source = TaskSource("choir", "acme/choir", {"train": "train"})

    def observe(self, item: TaskItem, agent: str) -> str:
        return f"{item.prompt}\n\n<told {agent} 0>"

    def score(self, item: TaskItem, actions: Mapping[str, str]) -> Score:
        parts = float(sum(bool(text) for text in actions.values()))
        return Score(parts, {"parts": parts}, notes={"texts": json.dumps(actions)})

    def respond(self, item: TaskItem, actions: Mapping[str, str], score: Score) -> Mapping[str, str]:
        return {agent: f"<told {agent} {self.turn + 1}>" for agent in self.possible_agents}


class Duet(Choir):
    declared = replace(Choir.declared, roles=("high", "low"))


class Trio(Choir):
    declared = replace(Choir.declared, roles=("high", "middle", "low"))


class Speaker(Policy):
    """Says `<said AGENT k>` for the k-th time it is asked, in its own time and with its own number of tokens."""

    def __init__(self, seconds: Mapping[str, Sequence[float]], header: str = "") -> None:
        self._seconds = seconds
        self._header = header

    def generate(self, requests: Sequence[Request], sampling: Sampling) -> list[list[Completion]]:
        return [[self._say(request)] * len(request.seeds) for request in requests]

    def _say(self, request: Request) -> Completion:
        number = len(request.history) // 2
        agent = int(request.agent[-1])
        return Completion(
            f"{self._header}<said {request.agent} {number}>",
            prompt_ids=tuple(range(10 * len(request.history) + agent)),
            token_ids=tuple(range(1 + agent + 3 * number)),
            seconds=self._seconds[request.agent][number],
        )


# Every agent is the slowest of some round, and no two sums are alike.
SECONDS = {
    "agent_0": (1.0, 20.0, 3.0, 0.25, 5.0, 9.0),
    "agent_1": (2.0, 0.5, 30.0, 4.0, 0.125, 8.0),
    "agent_2": (0.75, 10.0, 6.0, 40.0, 7.0, 0.0625),
}


def choir(n: int, max_turns: int) -> Choir:
    return (Duet, Trio)[n - 2](ITEMS, max_turns=max_turns)


def under(protocol: str, n: int, max_turns: int) -> TextDecPOMDP:
    inner = choir(n, max_turns)
    if protocol == "sequential":
        return Sequential(inner)
    if protocol == "centralized":
        return Centralized(inner)
    return Discussion(inner, int(protocol[-1])) if protocol.startswith("discussion") else inner


def phases(protocol: str, n: int) -> int:
    return {"parallel": 1, "centralized": 1, "sequential": n, "discussion 1": 2, "discussion 2": 3}[protocol]


def episode(protocol: str, n: int, max_turns: int) -> Episode:
    speaker = Speaker(SECONDS, "[high]\n" if protocol == "centralized" else "")
    env = under(protocol, n, max_turns)
    [group] = Trajectories().play(env, Team(dict.fromkeys(AGENTS, speaker)), ["t1"], [0], SAMPLING)
    return group.episodes[0]


every = pytest.mark.parametrize(
    ("protocol", "n", "max_turns"),
    [
        (protocol, n, max_turns)
        for protocol in ("parallel", "centralized", "sequential", "discussion 1", "discussion 2")
        for n in (2, 3)
        for max_turns in (1, 2)
    ],
)

# --- who speaks -------------------------------------------------------------------------------------------------------


def speakers(protocol: str, n: int) -> list[tuple[str, ...]]:
    """Who is asked in every phase of a scored turn."""
    if protocol == "centralized":
        return [AGENTS[:1]]
    if protocol == "sequential":
        return [(agent,) for agent in AGENTS[:n]]
    return [AGENTS[:n]] * phases(protocol, n)


def rounds(protocol: str, n: int, max_turns: int) -> Iterator[tuple[int, int, dict[str, int]]]:
    """Turn and phase of every step, and for the k-th time who is asked in it."""
    asked: dict[str, Iterator[int]] = {agent: itertools.count() for agent in AGENTS}
    for turn, (phase, who) in itertools.product(range(max_turns), enumerate(speakers(protocol, n))):
        yield turn, phase, {agent: next(asked[agent]) for agent in who}


# --- seconds and tokens -----------------------------------------------------------------------------------------------


@every
def test_response_time_and_tokens_are_those_of_every_round(protocol: str, n: int, max_turns: int) -> None:
    """The response time is that of the slowest of every round; drafts cost tokens too."""
    asked = [numbers for _, _, numbers in rounds(protocol, n, max_turns)]
    slowest = sum(max(SECONDS[agent][number] for agent, number in numbers.items()) for numbers in asked)
    numbered = [(int(agent[-1]), number) for numbers in asked for agent, number in numbers.items()]
    env = under(protocol, n, max_turns)
    [group] = Trajectories().play(env, Team(dict.fromkeys(AGENTS, Speaker(SECONDS))), ["t1"], [0], SAMPLING, width=1)
    measured = summarise([group], Scale(0.0, 3.0), ("parts",), seconds=2.0)
    assert measured.response_seconds == episode(protocol, n, max_turns).response_seconds == slowest
    assert measured.generated_tokens == sum(1 + agent + 3 * number for agent, number in numbered)
    assert measured.prompt_tokens == sum(10 * (2 * number + 1) + agent for agent, number in numbered)
    assert measured.tokens_per_second == measured.generated_tokens / 2.0


def test_measures_are_means_over_episodes() -> None:
    env = under("discussion 1", 2, 1)
    team = Team(dict.fromkeys(AGENTS, Speaker(SECONDS)))
    once, often = (
        summarise(
            Trajectories().play(env, team, ids, range(len(ids)), SAMPLING, width=size),
            env.facts.score_scale,
            env.facts.components,
            seconds=1.0,
        )
        for ids, size in ((["t0"], 1), (["t0", "t1", "t2"], 4))
    )
    assert (often.episodes, once.episodes) == (12, 1)
    for name in ("generated_tokens", "prompt_tokens", "response_seconds"):
        assert getattr(often, name) == pytest.approx(getattr(once, name))
    assert often.tokens_per_second == pytest.approx(12 * once.tokens_per_second)


# --- scores -----------------------------------------------------------------------------------------------------------


@every
def test_the_last_texts_are_scored_and_drafts_earn_nothing(protocol: str, n: int, max_turns: int) -> None:
    """Never a draft, never a text of an earlier turn."""
    value = 1.0 if protocol == "centralized" else float(n)
    drafts = phases(protocol, n) - 1
    played = episode(protocol, n, max_turns)
    assert [turn.score is not None for turn in played.turns] == ([False] * drafts + [True]) * max_turns
    again = (0.0,) * (drafts + 1) * (max_turns - 1)  # the same once more adds nothing
    assert played.rewards == (0.0,) * drafts + (value,) + again
    assert played.total == value
    assert played.final is not None
    assert played.final.total == value
    last: dict[str, int] = {}
    expected: list[dict[str, str]] = []
    for _, phase, asked in rounds(protocol, n, max_turns):
        last |= asked
        if phase == drafts:
            texts = {agent: f"<said {agent} {number}>" for agent, number in last.items()}
            expected.append(dict.fromkeys(AGENTS[:n], "") | texts)
    assert [json.loads(turn.score.notes["texts"]) for turn in played.turns if turn.score] == expected


# --- who sees what ----------------------------------------------------------------------------------------------------

SECRET = re.compile(r"<(?:told|said) agent_\d \d+>")


def secrets(text: str) -> list[str]:
    return SECRET.findall(text)


def observed(agents: Sequence[str], turn: int) -> set[str]:
    return {f"<told {agent} {turn}>" for agent in agents}


def escape_controls(protocol: str, n: int, turn: int, phase: int, agent: str) -> set[str]:
    """What an agent may be told in a phase, apart from what it was told or said before."""
    everyone = AGENTS[:n]
    if protocol == "centralized":
        return observed(everyone, turn)
    if protocol == "sequential":
        return observed([agent], turn) | {f"<said {other} {turn}>" for other in everyone[:phase]}
    if phase == 0:
        return observed([agent], turn)
    before = turn * phases(protocol, n) + phase - 1
    return {f"<said {other} {before}>" for other in everyone if other != agent}


@every
def test_an_agent_is_told_what_the_protocol_says_and_nothing_else(protocol: str, n: int, max_turns: int) -> None:
    for turn, (number, phase, asked) in zip(
        episode(protocol, n, max_turns).turns, rounds(protocol, n, max_turns), strict=True
    ):
        for agent in asked:
            found = secrets(turn.observations[agent])
            assert set(found) == escape_controls(protocol, n, number, phase, agent)
            assert len(found) == len(set(found))  # nothing is told twice


@every
def test_a_request_is_the_agents_own_history_and_no_more(protocol: str, n: int, max_turns: int) -> None:
    requests: list[Request] = []

    class Listening(Speaker):
        def generate(self, requests_: Sequence[Request], sampling: Sampling) -> list[list[Completion]]:
            requests.extend(requests_)
            return super().generate(requests_, sampling)

    Trajectories().play(
        under(protocol, n, max_turns), Team(dict.fromkeys(AGENTS, Listening(SECONDS))), ["t1"], [0], SAMPLING
    )
    allowed: dict[str, set[str]] = {agent: set() for agent in AGENTS}
    due = iter(requests)
    for turn, phase, asked in rounds(protocol, n, max_turns):
        for agent, number in asked.items():
            request = next(due)
            assert request.agent == agent
            assert len(request.history) == 2 * number + 1
            allowed[agent] |= escape_controls(protocol, n, turn, phase, agent)
            assert set(secrets("".join(m.text for m in request.history))) == allowed[agent]
            allowed[agent].add(f"<said {agent} {number}>")
    assert next(due, None) is None
