"""Teams of any members, and the one place that says what a model's name stands for: a model, or a script.

Members may have other models, be frozen or scripted, and have learning rates and sampling of their own.

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
    sampling = { temperature = 0.7, stop = ["\\n"] }
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Annotated, Any

from pydantic import PlainSerializer

from ..options import Sampling
from ..registries import nearest
from ..types import Message
from .base import Policy, Team
from .loading import TABLE, ModelError, load_team, locate, server_model
from .options import ModelOptions
from .scripted import RandomText, Say, Scripted, Uniform

SCRIPT = "script:"
_GENERAL = ("random", "uniform")  # scripts of every environment
Choices = Callable[[str, Sequence[Message]], Sequence[str]]


def no_script(name: str) -> Say:
    """Of a team without an environment."""
    raise ModelError(f"no script {SCRIPT + name!r} without an environment; give its `script`")


def no_choices(agent: str, history: Sequence[Message]) -> Sequence[str]:
    """Any text may matter."""
    return ()


def check_model(name: str, scripts: Collection[str] = ()) -> None:
    """Refuse a name of nothing, before anything is loaded.

    Args:
        name: Of a model (see `agents.loading`), or "script:NAME".
        scripts: Names of the environment's own scripts, `facts.scripts`.

    Raises:
        ModelError: Nothing has this name; the message names the nearest.
    """
    if not name.startswith(SCRIPT):
        if not (server_model(name) or name == TABLE):
            locate(name)
        return
    known = [SCRIPT + script for script in (*_GENERAL, *scripts)]
    if name not in known:
        raise ModelError(f"no script {name!r} here; {nearest(name, known)}")


class MemberConfig(ModelOptions):
    """Who plays some of the agents."""

    agents: list[str]
    """Names ("agent_0") or roles ("summary"): all agents of that role."""
    model: str = "builtin:tiny"
    """Name of a model, script:random, script:uniform (any well-formed text, where there are few), or a script of
    the environment, such as script:gold (reference texts)."""
    train: bool = True
    """False: the weights stay as they are."""
    learning_rate: float | None = None
    """Left out: that of the algorithm."""
    sampling: Annotated[Sampling, PlainSerializer(lambda change: change.model_dump(exclude_unset=True))] = Sampling()
    """Fields that differ from those of the run for these agents: temperature, top_p, top_k, max_new_tokens, stop."""


def assemble_team(
    agents: Sequence[str],
    roles: Sequence[str],
    members: Sequence[MemberConfig],
    *,
    scripts: Collection[str] = (),
    script: Callable[[str], Say] = no_script,
    choices: Choices = no_choices,
    menus: Mapping[str, Sequence[str]] | None = None,
    vocabulary: Sequence[str] = (),
    seed: int = 0,
    load: Callable[..., Team] = load_team,
) -> Team:
    """Build a team from its members.

    Args:
        agents: All agents of the environment, in order.
        roles: Their roles, in the same order.
        members: Who plays whom; every agent exactly once.
        scripts: Names of the environment's own scripts, `facts.scripts`.
        script: What "script:NAME" says, by the name, e.g. `TextDecPOMDP.script`.
        choices: The texts of an agent after its history for "script:uniform", e.g. `TextDecPOMDP.choices`.
        menus, vocabulary, seed: See `load_team`.
        load: Loads the models of a member, as `load_team` does.

    Raises:
        ModelError: An agent is unknown, or has no member or two, or a model cannot be loaded.
    """
    role_of = dict(zip(agents, roles, strict=True))
    by_name = agents_by_name(agents, roles)
    words = {"menus": menus, "vocabulary": vocabulary}
    players: dict[str, Policy] = {}
    rates: dict[str, float] = {}
    samplings: dict[str, Sampling] = {}
    for member in members:
        for name in member.agents:
            if name not in by_name:
                raise ModelError(f"no agent or role {name!r} in this environment; {nearest(name, by_name)}")
        names = [agent for name in member.agents for agent in by_name[name]]
        for position, name in enumerate(names):
            if name in players or name in names[:position]:
                raise ModelError(f"agent {name!r} is played twice; name it once, in one member")
        if member.model.startswith(SCRIPT):
            check_model(member.model, scripts)
            players |= dict.fromkeys(names, _scripted(member.model.removeprefix(SCRIPT), script, choices))
        else:
            arguments: dict[str, Any] = {"seed": seed, "train": member.train, **words, **member.options()}
            players |= load(names, member.model, roles=[role_of[name] for name in names], **arguments).members
        if member.learning_rate is not None:
            rates |= dict.fromkeys(names, member.learning_rate)
        if member.sampling.model_fields_set:
            samplings |= dict.fromkeys(names, member.sampling)
    missing = [agent for agent in agents if agent not in players]
    if missing:
        raise ModelError(f"nobody plays {missing[0]!r}; give every agent a member: {', '.join(agents)}")
    return Team({agent: players[agent] for agent in agents}, learning_rates=rates, samplings=samplings)


def agents_by_name(agents: Sequence[str], roles: Sequence[str]) -> dict[str, list[str]]:
    """The agents of every name that a member may give: their own, and that of a role."""
    by_role = {role: [agent for agent, of in zip(agents, roles, strict=True) if of == role] for role in roles}
    return by_role | {agent: [agent] for agent in agents}


def _scripted(name: str, script: Callable[[str], Say], choices: Choices) -> Policy:
    if name == "random":
        return RandomText()
    return Uniform(choices) if name == "uniform" else Scripted(script(name))
