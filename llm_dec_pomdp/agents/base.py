"""The policy contract and the team.

A policy answers requests. A request has an agent, its own history, and one seed per sample. Learners train on the
sampled tokens: a `Completion` has token ids and log-probabilities, and a request has the token ids of the agent's
earlier turns, so that no text is tokenized twice.
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

_DEFAULTS = Sampling()
LEARNING_RATE = 5e-4  # of AdamW, for adapters, small models and policies without their own default


def chat(history: Sequence[Message], *, tools: bool = True) -> list[dict[str, str]]:
    """Return a history as chat messages with the roles "user", "assistant" and "tool".

    Consecutive messages of one role are joined, since templates require alternating roles.

    Args:
        history: Observations, actions and tool results of an agent.
        tools: False: tool results are user messages that begin with the name of the tool.

    Returns:
        Messages with `role`, `content`, and `name` for tools.
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
    """Return tools in the format of chat templates and OpenAI-compatible servers."""
    return [
        {
            "type": "function",
            "function": {"name": tool.name, "description": tool.description, "parameters": tool.json_schema},
        }
        for tool in tools
    ]


@dataclass(frozen=True, slots=True)
class Request:
    """A request for completions of one agent.

    Attributes:
        agent: The agent that acts.
        history: The agent's own history (o_0, a_0, ..., o_t) as messages.
        seeds: One seed per sample. Except for rounding, a sample depends only on its seed and not on other requests of
            the batch. Rounding changes few tokens in 32 bits, and many in 16 bits.
        ids: Token ids of (o_0, a_0, ..., a_{t-1}), as prompted and sampled, including thoughts of earlier turns. Empty
            at the first turn, for a policy without tokens, and if only the texts are known.
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
        name: The name of the file.
        tensors: Mapping from the name in the file to the name in the policy's `state_dict`.
        configs: JSON files in the same folder, by name.
    """

    name: str
    tensors: Mapping[str, str]
    configs: Mapping[str, Any] = field(default_factory=dict[str, Any])


Reading = tuple[str, tuple[int, ...]]  # an agent, and the token ids of the history to value


class Critic(Protocol):
    """An estimate of the return after a history, on a scale that its updater chooses and may change."""

    def values(self, readings: Sequence[Reading]) -> torch.Tensor:
        """Return the values [N] of N readings in float32, with gradient; 0 for agents that are not trained."""
        ...

    def rescale(self, factor: float, shift: float) -> None:
        """Rescale outputs: V <- factor * V + shift (PopArt)."""
        ...

    def parameters(self) -> Iterable[Parameter]:
        """Return the critic's own parameters in a fixed order, without parameters of the policy."""
        ...

    def state_dict(self) -> dict[str, torch.Tensor]:
        """Return the parameters and all other state that a restart needs, as tensors by name."""
        ...

    def load_state_dict(self, state: Mapping[str, torch.Tensor]) -> None:
        """Restore the state.

        Raises:
            ValueError: A tensor is missing or has another shape.
        """
        ...


@runtime_checkable
class TokenCritic(Critic, Protocol):
    """A critic that also values prefixes of a reading."""

    def token_values(self, readings: Sequence[Reading], count: int) -> torch.Tensor:
        """Return the values [N, count] of N readings without their last count - 1, ..., 1, 0 tokens.

        If a reading has fewer than `count` tokens, its first columns are meaningless.
        """
        ...


@dataclass(frozen=True, slots=True)
class ParameterGroup:
    """The parameters used by exactly these agents, in their policy's order, with the learning rate of these agents."""

    agents: tuple[str, ...]
    parameters: list[Parameter]
    learning_rate: float


class Policy(ABC):
    """Base of policies: a subclass implements `generate`, and overrides other methods for what it supports.

    A trainable policy has `parameters`, `token_logprobs`, `state_dict` and `load_state_dict`. The reference policy of a
    learner is a `copy.deepcopy` of the policy; the copy may share weights that are never trained.
    """

    @abstractmethod
    def generate(self, requests: Sequence[Request], sampling: Sampling) -> list[list[Completion]]:
        """Answer every request, in order, with one completion per seed."""

    # --- device -----------------------------------------------------------------------------------

    @property
    def accelerator(self) -> str | None:
        """Return the accelerator of the policy, e.g. "cuda:1"; None for the CPU."""
        return None

    @property
    def processor_load(self) -> int:
        """Return a size that predicts the CPU time, for `concurrency.run_parallel`; 0: must not run in parallel."""
        return 0

    @property
    def sampled_elsewhere(self) -> bool:
        """Return whether another engine samples the completions."""
        return False

    @property
    def rollout_copy_differs(self) -> bool:
        """Return whether `token_logprobs` and the sampler differ by more than rounding in 32 bits."""
        return False

    # --- sampling during updates --------------------------------------------------------------------------------------

    source: Policy | None = None
    """The policy whose weights this copy follows, if it is a `rollout_copy`."""

    def rollout_copy(self) -> Policy:
        """Return a policy that samples elsewhere, with the weights of this one at the last `sync_weights`.

        A policy without trainable weights returns itself.

        Raises:
            ConfigError: The policy samples with the weights that are updated (the default).
        """
        if next(iter(self.parameters()), None) is None:
            return self
        raise ConfigError(
            f"a {type(self).__name__} cannot sample while its weights are updated (training.staleness above 0); use "
            "the executor processes or ray, an engine, or staleness 0"
        )

    def sync_weights(self) -> None:
        """Copy the current weights of `source`."""
        if self.source is not None:
            self.load_state_dict(self.source.state_dict())

    # --- training -----------------------------------------------------------------------------------------------------

    def offload(self) -> None:  # noqa: B027  # nothing by default
        """Free memory that only sampling needs, until the next request; learners call this before each update."""

    @property
    def default_learning_rate(self) -> float:
        """Return the learning rate of AdamW that is used if neither learner nor team gives one."""
        return LEARNING_RATE

    def parameters(self) -> Iterable[Parameter]:
        """Return the trainable parameters in a fixed order; none (the default): the policy cannot be trained."""
        return ()

    def parameters_of(self, agent: str) -> Iterable[Parameter]:
        """Return the trainable parameters that an agent uses: those of its adapter, or all (the default)."""
        return self.parameters()

    def token_logprobs(
        self, samples: Sequence[tuple[str, Completion]], temperature: float
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return log pi(token | before) of sampled completions, with gradient.

        Args:
            samples: N pairs (agent, completion).
            temperature: The divisor of the logits, as in sampling.

        Returns:
            Log-probabilities [N, L] in float32, in nats, and a mask [N, L]: 1 on sampled tokens, including the
            end-of-turn token, and 0 on padding.
        """
        raise NotImplementedError(f"{type(self).__name__} has no token_logprobs, so it cannot be trained")

    @property
    def knows_entropy(self) -> bool:
        """Return whether the policy has `token_logprobs_and_entropies`."""
        return False

    def token_logprobs_and_entropies(
        self, samples: Sequence[tuple[str, Completion]], temperature: float
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return log-probabilities, entropies of the next-token distributions in nats, and mask, each [N, L]."""
        raise NotImplementedError(f"{type(self).__name__} cannot compute its entropy")

    def to_completion(self, request: Request, text: str, limit: int, thought: str = "") -> Completion:
        """Return a given text as a completion of this policy, with log-probabilities 0.

        Args:
            request: The request that the text answers.
            text: The text.
            limit: Maximum number of tokens; a longer text is cut.
            thought: A private thought before the text; ignored by policies without thoughts (the default).

        Returns:
            The completion with prompt ids, the ids of the text and the end-of-turn token. Without ids (the default) the
            policy cannot be trained on the text.
        """
        return Completion(text)

    def encode(self, history: Sequence[Message], new_tokens: int = 0, ids: Sequence[int] = ()) -> list[int]:
        """Return the token ids of a history, for critics.

        Args:
            history: The history of an agent.
            new_tokens: Number of tokens that must still fit into the context after the history.
            ids: See `Request`.
        """
        raise NotImplementedError(
            f"{type(self).__name__} has no encode(), which a critic needs; implement encode() (agents.base.Policy), or "
            "choose a learner without a critic, such as magrpo"
        )

    def critic(self, groups: Sequence[Sequence[str]], *, separate: bool) -> Critic:
        """Return a critic for these agents, with one head per group.

        Args:
            groups: Agents that share weights.
            separate: True: the critic has its own network. False: it is a head on the policy's network, which its loss
                also trains.

        Raises:
            ValueError: The policy has no critic (the default).
        """
        raise ValueError(
            f"{type(self).__name__} has no critic; give an agent a language model or builtin:table, give the policy "
            "encode() and critic() (agents.base.Policy), or override make_critic() of the updater"
        )

    def updater(self, kind: Any, groups: Sequence[ParameterGroup], temperature: float, options: Any) -> Any:
        """Return the updater `kind(policy, groups, temperature, options)`, or a proxy of one in another process."""
        return kind(self, groups, temperature, options)

    # --- weights -------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, torch.Tensor]:
        """Return the trainable tensors by name."""
        return {}

    def load_state_dict(self, state: Mapping[str, torch.Tensor]) -> None:
        """Restore the trainable tensors.

        Raises:
            ValueError: A tensor is missing, unexpected, or has another shape.
        """
        if state:
            raise ValueError(
                f"{type(self).__name__} has no weights, but {len(state)} tensors are to be restored, such as "
                f"{next(iter(state))!r}; restore them into the kind of policy that saved them"
            )

    @property
    def portable(self) -> bool:
        """Return whether other libraries can load the `weight_files`."""
        return False

    def weight_files(self, agents: Sequence[str]) -> dict[str, WeightFile]:
        """Return files by agent: one entry per agent that has its own weights, else one entry for the first agent."""
        return {agents[0]: WeightFile("weights.safetensors", {name: name for name in self.state_dict()})}


class Team(Policy):
    """The policies of all agents, used as one policy.

    Args:
        members: The policy of every agent. Requests of agents that share a policy go into one call.
        learning_rates: Learning rates by agent. Default: the learner's, or else the policy's own.
        samplings: Sampling options by agent. Given fields, as in `Sampling(temperature=0.5)`, replace those of a
            request. A `max_new_tokens` here limits the whole action, even if it has the parts of several agents.

    Attributes:
        sampling: The sampling options of the last training, which evaluations use; before training, the defaults.

    Raises:
        TypeError: A member is not a `Policy`.
        ValueError: There are no members, a learning rate is negative or not finite, or a learning rate or sampling
            options are for an unknown agent.
    """

    def __init__(
        self,
        members: Mapping[str, Policy],
        *,
        learning_rates: Mapping[str, float] | None = None,
        samplings: Mapping[str, Sampling] | None = None,
    ) -> None:
        if not members:
            raise ValueError("members is empty; give a policy for each agent")
        for agent, member in members.items():
            if not isinstance(member, Policy):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise TypeError(f"the member of {agent!r} is {member!r:.80}; give a subclass of agents.Policy")
        self.members = dict(members)
        self.learning_rates = dict(learning_rates or {})
        self.samplings = dict(samplings or {})
        self.sampling = Sampling()
        for agent in self.samplings:
            if agent not in self.members:
                raise ValueError(f"samplings has {agent!r}, but the team has no such agent; {nearest(agent, members)}")
        for agent, rate in self.learning_rates.items():
            if agent not in self.members:
                raise ValueError(
                    f"learning_rates has {agent!r}, but the team has no such agent; {nearest(agent, members)}"
                )
            if not (rate >= 0 and math.isfinite(rate)):
                raise ValueError(f"the learning rate of {agent!r} is {rate}; it must be finite and at least 0")

    @property
    def policies(self) -> list[Policy]:
        """Return the different policies in agent order."""
        return list({id(policy): policy for policy in self.members.values()}.values())

    @property
    def trainable(self) -> list[Policy]:
        """Return the different policies that can be trained, without frozen models."""
        return [policy for policy in self.policies if next(iter(policy.parameters()), None) is not None]

    def generate(self, requests: Sequence[Request], sampling: Sampling) -> list[list[Completion]]:
        """Answer all requests with one call per policy; models of similar size run in parallel.

        Raises:
            KeyError: A request is for an agent without a member.
        """
        numbers: dict[int, list[int]] = {}  # indices of the requests to each policy
        for number, request in enumerate(requests):
            if request.agent not in self.members:
                raise UnknownNameError(
                    f"the team has no member for {request.agent!r}; {nearest(request.agent, self.members)}"
                )
            numbers.setdefault(id(self.members[request.agent]), []).append(number)
        policies = [policy for policy in self.policies if id(policy) in numbers]
        calls = [partial(self.ask, p, [requests[number] for number in numbers[id(p)]], sampling) for p in policies]
        answers: dict[int, list[Completion]] = {}
        for policy, completions in zip(policies, run_parallel(policies, calls), strict=True):
            answers |= zip(numbers[id(policy)], completions, strict=True)
        return [answers[number] for number in range(len(requests))]

    def ask(self, policy: Policy, requests: Sequence[Request], sampling: Sampling) -> list[list[Completion]]:
        """Return the answers of a policy, with one call for each set of sampling options."""
        numbers: dict[Sampling, list[int]] = {}
        for number, request in enumerate(requests):
            numbers.setdefault(self.sampling_of(request.agent, sampling), []).append(number)
        answers: dict[int, list[Completion]] = {}
        for of_agents, places in numbers.items():
            completions = policy.generate([requests[place] for place in places], of_agents)
            answers |= zip(places, completions, strict=True)
        return [answers[number] for number in range(len(requests))]

    def sampling_of(self, agent: str, sampling: Sampling) -> Sampling:
        """Return the sampling options of an agent for a request with `sampling`."""
        return sampling.changed(self.samplings[agent]) if agent in self.samplings else sampling

    def rollout_copy(self) -> Team:
        """Return a team of the `rollout_copy` of every policy."""
        samplers = {id(policy): policy.rollout_copy() for policy in self.policies}
        twin = copy.copy(self)
        twin.members = {agent: samplers[id(policy)] for agent, policy in self.members.items()}
        return twin

    def sync_weights(self) -> None:
        """Copy the trained weights into every sampling policy; see `Policy.rollout_copy`."""
        for policy in self.policies:
            policy.sync_weights()

    def act(
        self, observations: Mapping[str, str | Sequence[Message]], sampling: Sampling = _DEFAULTS, seed: int = 0
    ) -> dict[str, str]:
        """Return the actions of all agents for `env.step`.

        Args:
            observations: By agent, its first observation as text, or its history (`env.history(agent)`).
            sampling: Sampling options.
            seed: Seed of the sampled actions.

        Raises:
            TypeError: `observations` is not a mapping.
            KeyError: An agent has no member.
        """
        if not isinstance(observations, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"observations is {observations!r:.60}; give a mapping from agent to text")
        requests = [
            Request(agent, conversation(seen) if isinstance(seen, str) else tuple(seen), (derive(seed, "act", agent),))
            for agent, seen in observations.items()
        ]
        answers = self.generate(requests, sampling)
        return {request.agent: completion.text for request, [completion] in zip(requests, answers, strict=True)}

    def __repr__(self) -> str:
        kinds = {agent: type(policy).__name__ for agent, policy in self.members.items()}
        return f"Team({', '.join(f'{agent}: {kind}' for agent, kind in kinds.items())})"
