"""The policy contract and the team.

A policy answers requests: an agent, its own history, and one seed per wanted sample. Learners train on exactly what was
sampled: a `Completion` carries token ids and log-probabilities, and a request carries the ids of the agent's earlier
turns, so that no text is tokenised again.
"""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from ..config import ConfigError
from ..options import Sampling
from ..registries import UnknownNameError, nearest
from ..seeding import derive
from ..types import Completion, Message, Tool, conversation
from .concurrency import run_parallel

if TYPE_CHECKING:
    import torch
    from torch.nn import Parameter

_DRAWN = Sampling()  # texts by default
LEARNING_RATE = 5e-4  # AdamW's for adapters and small models, and for policies that name none


def chat(history: Sequence[Message], *, tools: bool = True) -> list[dict[str, str]]:
    """A history as the messages of a chat: roles "user", "assistant" and "tool".

    Consecutive messages with one role are joined, since templates want roles to alternate.

    Args:
        history: What an agent was told and said.
        tools: False: results of tools are messages of the user, below the name of the tool.
    """
    messages: list[dict[str, str]] = []
    for role, text, name in history:
        speaker = {"observation": "user", "action": "assistant", "tool": "tool" if tools else "user"}[role]
        content = f"{name}:\n{text}" if role == "tool" and speaker == "user" else text
        message = {"role": speaker, "name": name} if speaker == "tool" else {"role": speaker}
        if messages and {k: v for k, v in messages[-1].items() if k != "content"} == message:
            messages[-1]["content"] += f"\n\n{content}"
        else:
            messages.append({**message, "content": content})
    return messages


def definitions(tools: Sequence[Tool]) -> list[dict[str, Any]]:
    """Tools as chat templates and OpenAI-compatible servers describe them."""
    return [
        {
            "type": "function",
            "function": {"name": tool.name, "description": tool.description, "parameters": tool.json_schema},
        }
        for tool in tools
    ]


@dataclass(frozen=True, slots=True)
class Request:
    """A question to a policy.

    Attributes:
        agent: The agent that is asked.
        history: The agent's own history (o_0, a_0, ..., o_t) as messages.
        seeds: One per wanted sample, which is drawn with that seed alone. The rest of the batch changes rounding, and
            thereby now and then a token: few in 32 bits, many in 16.
        ids: Token ids of (o_0, a_0, ..., a_{t-1}), as they were shown and sampled. Empty at the first turn, for a
            policy without tokens, after a text with a thought, and where only the texts are known.
        tools: Tools that the agent may call.
    """

    agent: str
    history: tuple[Message, ...]
    seeds: tuple[int, ...] = (0,)
    ids: tuple[int, ...] = ()
    tools: tuple[Tool, ...] = ()


@dataclass(frozen=True, slots=True)
class WeightFile:
    """The weights of one agent as another library expects them.

    Attributes:
        name: Of the file.
        tensors: Name in the file -> name in the policy's `state_dict`.
        configs: JSON files beside it, by name.
    """

    name: str
    tensors: Mapping[str, str]
    configs: Mapping[str, Any] = field(default_factory=dict[str, Any])


Reading = tuple[str, tuple[int, ...]]  # the agent whose critic reads, and the token ids


class Critic(Protocol):
    """Estimates the return after what was read, in a unit that its updater chooses and may change."""

    def values(self, readings: Sequence[Reading]) -> torch.Tensor:
        """The values of N readings [N], in float32, with gradient; 0 where nothing was learnt."""
        ...

    def rescale(self, factor: float, shift: float) -> None:
        """From now on say `factor` times what it said of readings that it has learnt from, plus `shift`."""
        ...

    def parameters(self) -> Iterable[Parameter]:
        """Its own parameters, in a fixed order; none of the policy."""
        ...

    def state_dict(self) -> dict[str, torch.Tensor]:
        """The parameters, and whatever else has to survive a restart, as tensors by name."""
        ...

    def load_state_dict(self, state: Mapping[str, torch.Tensor]) -> None:
        """Restore it; tensors that do not fit are an error."""
        ...


@runtime_checkable
class TokenCritic(Critic, Protocol):
    """A critic that also values what comes before the last tokens of what was read."""

    def token_values(self, readings: Sequence[Reading], count: int) -> torch.Tensor:
        """The values [N, count] of N readings without their last count - 1, ..., 1, 0 tokens, as `values` has them.

        Where a reading has fewer tokens than that, its first columns are of no meaning.
        """
        ...


@dataclass(frozen=True, slots=True)
class ParameterGroup:
    """Parameters that the same agents use, in the order of their policy, and the learning rate for these agents."""

    agents: tuple[str, ...]
    parameters: list[Parameter]
    learning_rate: float


class Policy(ABC):
    """Who speaks. A subclass answers requests; what else it can do it says by overriding the defaults, which say no.

    One that is trained has `parameters`, `token_logprobs`, `state_dict` and `load_state_dict`. The reference of
    learners that have one is its `copy.deepcopy`, with the parameters as they are then; it may share what is never
    trained.
    """

    @abstractmethod
    def generate(self, requests: Sequence[Request], sampling: Sampling) -> list[list[Completion]]:
        """Answer every request, in order, with one completion per seed."""

    # --- where it computes, and how -----------------------------------------------------------------------------------

    @property
    def accelerator(self) -> str | None:
        """The accelerator it computes on, e.g. "cuda:1"; None on the processor."""
        return None

    @property
    def processor_load(self) -> int:
        """How much it has to compute on the processor, see `concurrency.run_parallel`; 0: it works in turn."""
        return 0

    @property
    def sampled_elsewhere(self) -> bool:
        """Another engine draws its texts."""
        return False

    @property
    def rollout_copy_differs(self) -> bool:
        """True when `token_logprobs` and the sampler differ by more than the rounding of 32 bits."""
        return False

    # --- drawing while it learns --------------------------------------------------------------------------------------

    source: Policy | None = None
    """Whose `rollout_copy` this is."""

    def rollout_copy(self) -> Policy:
        """One that draws texts elsewhere, with the weights that this policy had at the last `sync_weights`.

        A policy without trainable weights is its own.

        Raises:
            ConfigError: Texts are drawn from the very weights that are updated (the default).
        """
        if next(iter(self.parameters()), None) is None:
            return self
        raise ConfigError(
            f"a {type(self).__name__} cannot draw texts while its weights are updated (training.staleness above 0); "
            "give the executor processes or ray, an engine, or staleness 0"
        )

    def sync_weights(self) -> None:
        """Take over the present weights of the policy whose `rollout_copy` this is."""
        if self.source is not None:
            self.load_state_dict(self.source.state_dict())

    # --- learning -----------------------------------------------------------------------------------------------------

    def offload(self) -> None:  # noqa: B027  # nothing by default
        """Free what drawing texts alone needs, until the next text; called before its weights are updated."""

    @property
    def default_learning_rate(self) -> float:
        """AdamW's, where neither the learner nor the team gives one."""
        return LEARNING_RATE

    def parameters(self) -> Iterable[Parameter]:
        """The trainable parameters, in a fixed order; none: it cannot be trained."""
        return ()

    def parameters_of(self, agent: str) -> Iterable[Parameter]:
        """The trainable parameters that an agent uses: those of its adapter, or all (the default)."""
        return self.parameters()

    def token_logprobs(
        self, samples: Sequence[tuple[str, Completion]], temperature: float
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """log pi(token | before) of what was sampled, with gradient.

        Args:
            samples: (agent, completion) pairs.
            temperature: Divides the logits, as in sampling.

        Returns:
            Log-probabilities [N, L] in float32 and a mask [N, L] that is 1 on sampled tokens, the end-of-turn token
            included, and 0 on padding.
        """
        raise NotImplementedError(f"{type(self).__name__} has no token_logprobs, so it cannot be trained")

    @property
    def knows_entropy(self) -> bool:
        """Whether it has `token_logprobs_and_entropies`."""
        return False

    def token_logprobs_and_entropies(
        self, samples: Sequence[tuple[str, Completion]], temperature: float
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """As `token_logprobs`, with the entropy of the distribution of every token [N, L], in nats, in between."""
        raise NotImplementedError(f"{type(self).__name__} cannot compute its entropy")

    def to_completion(self, request: Request, text: str, limit: int) -> Completion:
        """A given text as this policy would have sampled it, with log-probabilities 0.

        Args:
            request: What the text answers.
            text: The text.
            limit: Longest completion, in tokens; a longer one is cut.

        Returns:
            The prompt, the tokens of the text, and the token that ends it. Without tokens (the default) the policy
            cannot be shown a text, and nothing is learnt from it.
        """
        return Completion(text)

    def encode(self, history: Sequence[Message], new_tokens: int = 0, ids: Sequence[int] = ()) -> list[int]:
        """Token ids of a history as a prompt for `new_tokens` more; `ids` as in a `Request`. For critics."""
        raise NotImplementedError(f"{type(self).__name__} has no encode, so no critic can read for it")

    def critic(self, groups: Sequence[Sequence[str]], *, separate: bool) -> Critic:
        """A critic for these agents, those of a group with one head.

        Args:
            groups: Agents that share weights.
            separate: Whether the critic has its own body; else it moves that of the policy too.

        Raises:
            ValueError: It cannot make one (the default).
        """
        raise ValueError(
            f"{type(self).__name__} has no critic; give an agent a language model or builtin:table, give the policy "
            "encode() and critic() (agents.base.Policy), or override make_critic() of the updater"
        )

    def updater(self, kind: Any, groups: Sequence[ParameterGroup], temperature: float, options: Any) -> Any:
        """`kind(policy, groups, temperature, options)`, or a stand-in where its weights live elsewhere."""
        return kind(self, groups, temperature, options)

    # --- what is saved and loaded -------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, torch.Tensor]:
        """The trainable tensors by name."""
        return {}

    def load_state_dict(self, state: Mapping[str, torch.Tensor]) -> None:
        """Restore them.

        Raises:
            ValueError: Missing, unexpected or differently shaped tensors.
        """
        if state:
            raise ValueError(f"{type(self).__name__} has no weights to restore")

    @property
    def portable(self) -> bool:
        """Whether other libraries can load its `weight_files`."""
        return False

    def weight_files(self, agents: Sequence[str]) -> dict[str, WeightFile]:
        """By agent: with weights of its own for each agent one entry each, else one under the first name."""
        return {agents[0]: WeightFile("weights.safetensors", {name: name for name in self.state_dict()})}


class Team(Policy):
    """Who plays which agent. As a policy it speaks for all; what is trained and saved are its members.

    Args:
        members: The policy of every agent. Agents may share a policy; their requests then go into one call.
        learning_rates: Learning rates of single agents; the learner's, or their policy's own, where left out.
        samplings: Of single agents: the fields that were given, as in `Sampling(temperature=0.5)`, take the place of
            those with which the team is asked. A `max_new_tokens` here is that of the whole text, also where it holds
            the parts of several agents.

    Attributes:
        sampling: How it was told to draw texts when it was trained; the defaults before.

    Raises:
        ValueError: No members; a learning rate that is negative or not finite; or a learning rate or a sampling for an
            agent without a member.
    """

    def __init__(
        self,
        members: Mapping[str, Policy],
        *,
        learning_rates: Mapping[str, float] | None = None,
        samplings: Mapping[str, Sampling] | None = None,
    ) -> None:
        if not members:
            raise ValueError("a team needs at least one member")
        for agent, member in members.items():
            if not isinstance(member, Policy):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise TypeError(f"{agent!r} is played by {member!r:.80}, which is no agents.Policy; derive its class")
        self.members = dict(members)
        self.learning_rates = dict(learning_rates or {})
        self.samplings = dict(samplings or {})
        self.sampling = Sampling()
        for agent in self.samplings:
            if agent not in self.members:
                raise ValueError(f"a sampling is for {agent!r}, whom no member plays; {nearest(agent, members)}")
        for agent, rate in self.learning_rates.items():
            if agent not in self.members:
                raise ValueError(f"a learning rate is for {agent!r}, whom no member plays; {nearest(agent, members)}")
            if not (rate >= 0 and math.isfinite(rate)):
                raise ValueError(f"the learning rate of {agent!r} is {rate}; it must be finite and at least 0")

    @property
    def policies(self) -> list[Policy]:
        """The different policies, in agent order."""
        return list({id(policy): policy for policy in self.members.values()}.values())

    @property
    def trainable(self) -> list[Policy]:
        """The different policies that can be trained; frozen models cannot."""
        return [policy for policy in self.policies if next(iter(policy.parameters()), None) is not None]

    def generate(self, requests: Sequence[Request], sampling: Sampling) -> list[list[Completion]]:
        """Answer all requests with one call per policy, models of like size at the same time.

        Raises:
            KeyError: A request is for an agent that no member plays.
        """
        numbers: dict[int, list[int]] = {}  # of the requests to each policy
        for number, request in enumerate(requests):
            if request.agent not in self.members:
                raise UnknownNameError(f"no member plays {request.agent!r}; {nearest(request.agent, self.members)}")
            numbers.setdefault(id(self.members[request.agent]), []).append(number)
        policies = [policy for policy in self.policies if id(policy) in numbers]
        calls = [partial(self.ask, p, [requests[number] for number in numbers[id(p)]], sampling) for p in policies]
        answers: dict[int, list[Completion]] = {}
        for policy, completions in zip(policies, run_parallel(policies, calls), strict=True):
            answers |= zip(numbers[id(policy)], completions, strict=True)
        return [answers[number] for number in range(len(requests))]

    def ask(self, policy: Policy, requests: Sequence[Request], sampling: Sampling) -> list[list[Completion]]:
        """What a policy answers, with one call for each sampling of the agents."""
        numbers: dict[Sampling, list[int]] = {}
        for number, request in enumerate(requests):
            numbers.setdefault(self.sampling_of(request.agent, sampling), []).append(number)
        answers: dict[int, list[Completion]] = {}
        for of_agents, places in numbers.items():
            completions = policy.generate([requests[place] for place in places], of_agents)
            answers |= zip(places, completions, strict=True)
        return [answers[number] for number in range(len(requests))]

    def sampling_of(self, agent: str, sampling: Sampling) -> Sampling:
        """How an agent draws where the team is asked with `sampling`."""
        return sampling.changed(self.samplings[agent]) if agent in self.samplings else sampling

    def rollout_copy(self) -> Team:
        """A team of the `rollout_copy` of every policy."""
        samplers = {id(policy): policy.rollout_copy() for policy in self.policies}
        twin = copy.copy(self)
        twin.members = {agent: samplers[id(policy)] for agent, policy in self.members.items()}
        return twin

    def sync_weights(self) -> None:
        """See `Policy`."""
        for policy in self.policies:
            policy.sync_weights()

    def act(
        self, observations: Mapping[str, str | Sequence[Message]], sampling: Sampling = _DRAWN, seed: int = 0
    ) -> dict[str, str]:
        """The texts of all agents, as `env.step` takes them.

        Args:
            observations: By agent, a text; or its whole history (`env.history(agent)`) after the first turn.
            sampling: How texts are drawn.
            seed: Seed of the texts.

        Raises:
            TypeError: The observations are no mapping.
            KeyError: An agent that no member plays.
        """
        if not isinstance(observations, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"observations is {observations!r:.60}; give a text for each agent: {{'agent_0': ...}}")
        requests = [
            Request(agent, conversation(seen) if isinstance(seen, str) else tuple(seen), (derive(seed, "act", agent),))
            for agent, seen in observations.items()
        ]
        answers = self.generate(requests, sampling)
        return {request.agent: completion.text for request, [completion] in zip(requests, answers, strict=True)}

    def __repr__(self) -> str:
        kinds = {agent: type(policy).__name__ for agent, policy in self.members.items()}
        return f"Team({', '.join(f'{agent}: {kind}' for agent, kind in kinds.items())})"
