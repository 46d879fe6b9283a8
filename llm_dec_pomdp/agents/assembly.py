"""Teams of unlike members: other models, other sizes, frozen or scripted ones, each with its own learning rate.

A member plays one agent or several. In a file (`llm-dec-pomdp train ID --team team.toml`):

    [[members]]
    agents = ["summary"]               # names or roles
    model = "model.gguf"
    sharing = "lora"
    learning_rate = 5e-4

    [[members]]
    agents = ["elaboration"]
    model = "builtin:tiny"
    train = false
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..config import Config, Positive
from ..registry import nearest
from .base import Policy, Team
from .loading import BATCH_ROWS, ModelError, Sharing, load_team
from .scripted import Gold, RandomText

SCRIPTED = ("script:random", "script:gold")


class ModelOptions(Config):
    """How a model is loaded and run."""

    sharing: Sharing = "separate"
    """Among the agents: separate (a model each), shared (one for all), or lora (an adapter each on one base)."""
    device: str = "auto"
    """auto, cpu, cuda, ..."""
    dtype: str = "auto"
    """auto (on CUDA bfloat16, with float32 weights where all are trained, else float32), float32, bfloat16, float16."""
    lora_rank: Positive = 8
    """Rank of the adapters."""
    chat_template_kwargs: dict[str, Any] = {}
    """Variables of the chat template: Qwen3 thinks unless it is { enable_thinking = false }."""
    batch_rows: Positive = BATCH_ROWS
    """Texts sampled at once. Halved when the device has too little memory."""
    truncate_prompts: bool = False
    """Keep the end of prompts that are too long for the context, instead of refusing them."""
    gradient_checkpointing: bool = False
    """Keep the input of every layer alone in updates and compute the rest again: less memory, more time."""

    def load(self, agents: Sequence[str], model: str, *, seed: int, train: bool) -> Team:
        """These agents, played by the model of that name; see `load_team`."""
        options = self.model_dump(include=set(ModelOptions.model_fields))
        return load_team(agents, model, seed=seed, train=train, **options)


class MemberConfig(ModelOptions):
    """Who plays some of the agents."""

    agents: list[str]
    """Names ("agent_0") or roles ("summary")."""
    model: str = "builtin:tiny"
    """A model's name, or script:random, or script:gold."""
    train: bool = True
    """False: the weights stay as they are."""
    learning_rate: float | None = None
    """The algorithm's when left out."""


def assemble_team(
    agents: Sequence[str],
    roles: Sequence[str],
    members: Sequence[MemberConfig],
    *,
    gold: Callable[[], Mapping[tuple[str, str], str]] = dict,
    seed: int = 0,
) -> Team:
    """Build a team from its members.

    Args:
        agents: All agents of the environment, in order.
        roles: Their roles, in the same order.
        members: Who plays whom; every agent exactly once.
        gold: Reference texts for "script:gold", see `agents.scripted.Gold`.
        seed: Seed of the adapters' first weights.

    Raises:
        ModelError: An agent is played by nobody or twice, an unknown agent, or a model that cannot be loaded.
    """
    by_name = {**dict(zip(roles, agents, strict=True)), **dict(zip(agents, agents, strict=True))}
    players: dict[str, Policy] = {}
    rates: dict[str, float] = {}
    for member in members:
        names = [_agent(name, by_name) for name in member.agents]
        for position, name in enumerate(names):
            if name in players or name in names[:position]:
                raise ModelError(f"agent {name!r} is played twice; name it once, in one member")
        players |= _players(names, member, gold, seed)
        if member.learning_rate is not None:
            rates |= dict.fromkeys(names, member.learning_rate)
    missing = [agent for agent in agents if agent not in players]
    if missing:
        raise ModelError(f"nobody plays {missing[0]!r}; give every agent a member: {', '.join(agents)}")
    return Team({agent: players[agent] for agent in agents}, learning_rates=rates)


def _agent(name: str, by_name: Mapping[str, str]) -> str:
    if name not in by_name:
        raise ModelError(f"no agent or role {name!r} in this environment; {nearest(name, by_name)}")
    return by_name[name]


def _players(
    names: Sequence[str], member: MemberConfig, gold: Callable[[], Mapping[tuple[str, str], str]], seed: int
) -> dict[str, Policy]:
    if member.model.startswith("script:"):
        if member.model not in SCRIPTED:
            raise ModelError(f"no script {member.model!r}; {nearest(member.model, SCRIPTED)}")
        policy: Policy = RandomText() if member.model == "script:random" else Gold(gold())
        return dict.fromkeys(names, policy)
    return member.load(names, member.model, seed=seed, train=member.train).members
