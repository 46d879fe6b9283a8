"""Policies without a model: for tests, baselines, and as fixed members of a team."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ..seeding import generator
from ..spaces import FreeText
from ..types import Completion, Message
from ..user_code import shortened
from .base import Policy, Request, Sampling

Script = Callable[[str, Sequence[Message]], str]  # from agent and history to text


class Scripted(Policy):
    """Says what a function of agent and history returns."""

    def __init__(self, say: Script) -> None:
        self._say = say

    def generate(self, requests: Sequence[Request], sampling: Sampling) -> list[list[Completion]]:
        """Return the same text for every sample of a request; an exception gets a note with agent and observation."""
        answers: list[list[Completion]] = []
        for request in requests:
            try:
                text = self._say(request.agent, request.history)
            except Exception as error:
                observed = request.history[-1].text if request.history else ""
                error.add_note(f"{request.agent} observed {shortened(observed)}")
                raise
            answers.append([Completion(text)] * len(request.seeds))
        return answers


class RandomText(Policy):
    """Says random words, as `FreeText.sample` does; the same for the same seed."""

    def generate(self, requests: Sequence[Request], sampling: Sampling) -> list[list[Completion]]:
        """One random text per seed."""
        return [[Completion(FreeText(seed=generator(s)).sample()) for s in request.seeds] for request in requests]


class Uniform(Policy):
    """Says one of the texts that a function lists, all equally likely; the same for the same seed.

    Args:
        choices: From agent and history to texts, e.g. `TextDecPOMDP.choices`; none where any text may matter.

    Raises:
        ValueError: There are none for an agent that is asked.
    """

    def __init__(self, choices: Callable[[str, Sequence[Message]], Sequence[str]]) -> None:
        self._choices = choices

    def generate(self, requests: Sequence[Request], sampling: Sampling) -> list[list[Completion]]:
        """One text per seed."""
        return [[Completion(self._choose(r, seed)) for seed in r.seeds] for r in requests]

    def _choose(self, request: Request, seed: int) -> str:
        texts = self._choices(request.agent, request.history)
        if not texts:
            raise ValueError(f"script:uniform says one of a few texts, and {request.agent} writes freely; use a model")
        return texts[int(generator(seed, "uniform").integers(len(texts)))]


class Replay(Policy):
    """Repeats the recorded texts of each agent, and raises IndexError when they run out.

    Args:
        texts: What each agent says, in the order in which it is asked.
    """

    def __init__(self, texts: Mapping[str, Sequence[str]]) -> None:
        self._remaining = {agent: list(spoken) for agent, spoken in texts.items()}

    def generate(self, requests: Sequence[Request], sampling: Sampling) -> list[list[Completion]]:
        """The next recorded texts."""
        return [[Completion(self._next(request.agent)) for _ in request.seeds] for request in requests]

    def _next(self, agent: str) -> str:
        if not self._remaining.get(agent):
            raise IndexError(f"the recording has no further text for {agent!r}; record a longer episode")
        return self._remaining[agent].pop(0)
