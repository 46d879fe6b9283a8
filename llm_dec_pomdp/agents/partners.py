"""Changed members of a team, for evaluation and training with other or faulty partners.

A fault wraps a policy, so it applies in every environment and under every protocol:

    team = replace_members(team, {"agent_1": Silent(team.members["agent_1"])})

| class | the text of the wrapped policy |
|---|---|
| `Silent` | is empty |
| `Noisy` | is replaced by a recorded text from another task |
| `Late` | ends after a number of tokens |
| `Frozen` | stays as it is; it is not trained on |
| `Renamed` | stays as it is, for an agent with another name |

`mixed_team` builds a team from members of several teams, such as teams of different training seeds. A script
(`Scripted`) is not trained and needs no wrapper.

The occurrence of a fault depends only on the seed and the history of a request. So a resumed evaluation repeats the
same faults, for every batch size. All episodes of a group have the same partner; faults are sampled per episode, like
completions. A wrapper has no parameters, so its texts are not trained on.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Literal

from pydantic import Field

from ..config import Config, Count, Positive
from ..options import Sampling
from ..registries import UnknownNameError, nearest
from ..seeding import derive, uniforms
from ..types import Completion, Group
from .base import Policy, Request, Team


class Fault(Config):
    """A fault of a member as plain values, for files."""

    kind: Literal["silent", "noisy", "late"]
    """silent, noisy or late; see `Silent`, `Noisy` and `Late`."""
    share: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Probability that an action is faulty (silent, noisy)."""
    from_turn: Count = 0
    """First turn of the agent that can be faulty, from 0 (silent)."""
    tokens: Positive = 1
    """Maximum number of tokens (late)."""
    traces: str = ""
    """File with traces of the intact team, from which other texts come (noisy): `episodes/step-N.jsonl` of a run."""

    def of(self, policy: Policy, recorded: Sequence[Group] = ()) -> Policy:
        """Return the policy with this fault.

        Args:
            policy: The intact policy.
            recorded: Episodes of the intact team, for "noisy".

        Raises:
            ValueError: The fault is noisy, and `recorded` is empty.
        """
        if self.kind == "silent":
            return Silent(policy, self.share, self.from_turn)
        return Noisy(policy, recorded, self.share) if self.kind == "noisy" else Late(policy, self.tokens)


class Frozen(Policy):
    """A policy whose texts are sampled as before and not trained on, since the wrapper has no parameters.

    Args:
        policy: The policy, such as an earlier checkpoint or a copy without training.
    """

    def __init__(self, policy: Policy) -> None:
        self.policy = policy

    def generate(self, requests: Sequence[Request], sampling: Sampling) -> list[list[Completion]]:
        """Answer every request; see `Policy`."""
        return self.policy.generate(requests, sampling)

    def offload(self) -> None:
        """Free memory of the wrapped policy; see `Policy`."""
        self.policy.offload()


class Renamed(Frozen):
    """A policy that acts for another agent, as in a larger team with more agents of the same kind.

    Args:
        policy: The policy.
        agent: The agent that the policy knows; all requests are passed on under this name.
    """

    def __init__(self, policy: Policy, agent: str) -> None:
        super().__init__(policy)
        self._agent = agent

    def generate(self, requests: Sequence[Request], sampling: Sampling) -> list[list[Completion]]:
        """Answer every request as the agent that the policy knows."""
        return super().generate([replace(request, agent=self._agent) for request in requests], sampling)


class _Replacing(Frozen, ABC):
    """Base of faults that replace whole texts: the wrapped policy samples only the texts that are kept."""

    @abstractmethod
    def replacement(self, request: Request, seed: int) -> str | None:
        """Return the text that replaces the sample with this seed; None if the sample is kept."""

    def generate(self, requests: Sequence[Request], sampling: Sampling) -> list[list[Completion]]:
        """Answer every request; a replaced completion has no tokens."""
        given = [[self.replacement(request, seed) for seed in request.seeds] for request in requests]
        kept = [
            replace(request, seeds=tuple(s for s, text in zip(request.seeds, texts, strict=True) if text is None))
            for request, texts in zip(requests, given, strict=True)
        ]
        asked = [request for request in kept if request.seeds]
        sampled = iter(self.policy.generate(asked, sampling) if asked else [])
        answers: list[list[Completion]] = []
        for request, texts in zip(kept, given, strict=True):
            own = iter(next(sampled) if request.seeds else [])
            answers.append([next(own) if text is None else Completion(text) for text in texts])
        return answers


class Silent(_Replacing):
    """A policy whose texts are empty from a turn on.

    Args:
        policy: The intact policy.
        share: The probability that a text is empty.
        from_turn: The first turn whose text can be empty. Turns are the agent's own actions in its history, from 0; if
            an environment resets the history, they are counted from the reset.
    """

    def __init__(self, policy: Policy, share: float = 1.0, from_turn: int = 0) -> None:
        super().__init__(policy)
        self._share, self._from_turn = share, from_turn

    def replacement(self, request: Request, seed: int) -> str | None:
        """Return "" if this sample is silent."""
        return "" if turn_of(request) >= self._from_turn and occurs(self._share, seed, "silent") else None


class Noisy(_Replacing):
    """A policy whose texts are replaced by texts that the same agent wrote in other tasks.

    The seed chooses a replacement among the texts at the same turn of recorded episodes with another first observation.
    If there is none, as in environments with a single task, it chooses among the texts of all recorded episodes at this
    turn. A text is not replaced if the agent has no recorded text at this turn.

    Args:
        policy: The intact policy.
        recorded: Episodes of the intact team, e.g. from `llm_dec_pomdp.collect`.
        share: The probability that a text is replaced.

    Raises:
        ValueError: `recorded` is empty.
    """

    def __init__(self, policy: Policy, recorded: Sequence[Group], share: float = 1.0) -> None:
        super().__init__(policy)
        self._share = share
        self._texts: dict[tuple[str, int], list[tuple[str, str]]] = {}  # by agent and turn: first observation and text
        for episode in (episode for group in recorded for episode in group.episodes):
            first: dict[str, str] = {}
            turns: dict[str, int] = {}
            for turn in episode.turns:
                for agent, completion in turn.actions.items():
                    observed = first.setdefault(agent, turn.observations[agent])
                    place = (agent, turns.get(agent, 0))
                    self._texts.setdefault(place, []).append((observed, completion.text))
                    turns[agent] = place[1] + 1
        if not self._texts:
            raise ValueError("recorded has no episodes; give groups of the intact team, e.g. from collect(team, env)")

    def replacement(self, request: Request, seed: int) -> str | None:
        """Return a recorded text if this sample is replaced."""
        known = self._texts.get((request.agent, turn_of(request)), [])
        if not (known and occurs(self._share, seed, "noisy")):
            return None
        others = [text for observed, text in known if observed != request.history[0].text]
        texts = others or [text for _, text in known]
        return texts[derive(seed, "noisy text") % len(texts)]


class Late(Frozen):
    """A policy whose texts end after a number of tokens, as if the time of the agent ran out.

    Policies without tokens, such as scripts, ignore the limit. An action of `builtin:table` is one token.

    Args:
        policy: The intact policy.
        tokens: The maximum number of tokens of a text, at least 1.
    """

    def __init__(self, policy: Policy, tokens: int) -> None:
        super().__init__(policy)
        self._tokens = tokens

    def generate(self, requests: Sequence[Request], sampling: Sampling) -> list[list[Completion]]:
        """Answer every request with the lower token limit."""
        limit = min(self._tokens, sampling.max_new_tokens)
        return super().generate(requests, sampling.model_copy(update={"max_new_tokens": limit}))


def turn_of(request: Request) -> int:
    """Return the number of actions of the agent in its history."""
    return sum(message.role == "action" for message in request.history)


def occurs(share: float, seed: int, label: str) -> bool:
    """Return whether an event with this probability occurs; it depends only on `seed` and `label`."""
    return bool(uniforms(derive(seed, label), 1)[0] < share)


def replace_members(team: Team, members: Mapping[str, Policy]) -> Team:
    """Return a team in which some agents have other policies; sampling options and learning rates stay the same.

    Args:
        team: The team, which is not changed. The new team shares its policies.
        members: The other policies by agent.

    Raises:
        KeyError: The team has no such agent.
    """
    for agent in members:
        if agent not in team.members:
            raise UnknownNameError(f"the team has no member for {agent!r}; {nearest(agent, team.members)}")
    twin = copy.copy(team)
    twin.members = {**team.members, **members}
    return twin


def mixed_team(sources: Mapping[str, Team]) -> Team:
    """Return a team of members of several teams; each member keeps its own sampling options.

    Args:
        sources: By agent, the team from which its member comes. The new team shares the policies of the teams.

    Raises:
        ValueError: `sources` is empty.
        KeyError: A team has no such agent.
    """
    members = {agent: team.members[agent] for agent, team in sources.items()}
    samplings = {agent: team.sampling_of(agent, team.sampling).model_dump() for agent, team in sources.items()}
    return Team(members, samplings={agent: Sampling(**values) for agent, values in samplings.items()})
