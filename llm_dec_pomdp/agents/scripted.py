"""Policies without a model, for tests, baselines and fixed members of a team."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ..seeding import generator
from ..spaces import FreeText
from ..types import Completion, Message
from ..user_code import shortened
from .base import Policy, Request, Sampling

Script = Callable[[str, Sequence[Message]], str]  # from agent and history to action


class Scripted(Policy):
    """A policy whose actions are the results of a function.

    Args:
        say: A function from an agent and its history to its action.
    """

    def __init__(self, say: Script) -> None:
        self._say = say

    def generate(self, requests: Sequence[Request], sampling: Sampling) -> list[list[Completion]]:
        """Return the same action for every seed of a request; add the agent and its observation to exceptions."""
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
    """A policy of random words (`FreeText.sample`), which depend only on the seed."""

    def generate(self, requests: Sequence[Request], sampling: Sampling) -> list[list[Completion]]:
        """Return one random text per seed."""
        return [[Completion(FreeText(seed=generator(s)).sample()) for s in request.seeds] for request in requests]


class Uniform(Policy):
    """A policy that is uniform over a list of actions and depends only on the seed.

    Args:
        choices: A function from an agent and its history to the possible actions, e.g. `TextDecPOMDP.choices`.
    """

    def __init__(self, choices: Callable[[str, Sequence[Message]], Sequence[str]]) -> None:
        self._choices = choices

    def generate(self, requests: Sequence[Request], sampling: Sampling) -> list[list[Completion]]:
        """Return one action per seed.

        Raises:
            ValueError: `choices` is empty for an agent.
        """
        return [[Completion(self._choose(r, seed)) for seed in r.seeds] for r in requests]

    def _choose(self, request: Request, seed: int) -> str:
        texts = self._choices(request.agent, request.history)
        if not texts:
            raise ValueError(f"script:uniform needs a list of actions, but {request.agent} writes freely; use a model")
        return texts[int(generator(seed, "uniform").integers(len(texts)))]


class Replay(Policy):
    """A policy that repeats recorded actions.

    Args:
        texts: The actions of each agent, in order; as completions if they have thoughts.
    """

    def __init__(self, texts: Mapping[str, Sequence[str | Completion]]) -> None:
        self._remaining = {agent: list(spoken) for agent, spoken in texts.items()}

    def generate(self, requests: Sequence[Request], sampling: Sampling) -> list[list[Completion]]:
        """Return the next recorded actions.

        Raises:
            IndexError: The recording of an agent has no further action.
        """
        return [[self._next(request.agent) for _ in request.seeds] for request in requests]

    def _next(self, agent: str) -> Completion:
        if not self._remaining.get(agent):
            raise IndexError(f"the recording has no further action of {agent!r}; record a longer episode")
        recorded = self._remaining[agent].pop(0)
        return Completion(recorded) if isinstance(recorded, str) else recorded
