"""Loading of teams whose members have different models, are frozen or are scripted.

A member is the policy of one agent or of several. Each member may have its own learning rate and sampling options. A
file of members is for `llm-dec-pomdp train ID --team team.toml` and `load_team(env, "team.toml")`:

    [members]
    summary = "model.gguf"                                                # agent or role, and its model
    elaboration = { model = "builtin:tiny", train = false }               # with options

The same team as a list, in which a member may have several agents:

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

import copy
import itertools
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple, cast

from pydantic import BeforeValidator, PlainSerializer

from ...config import Config, ConfigError, build, read_toml
from ...options import Sampling
from ...registries import nearest
from ...storage.reading import is_there
from ...types import Excerpt, Group, Message
from ..base import Policy, Team
from ..options import ModelOptions
from ..partners import Fault, Frozen, Renamed
from ..scripted import RandomText, Script, Scripted, Uniform
from .models import (
    TABLE,
    WHOLE_TEAMS,
    ModelError,
    check_extra_body,
    load_model,
    load_policy,
    locate,
    policy_of,
    server_model,
)
from .save import CHECKPOINT, DESCRIPTION

SCRIPT = "script:"
SAY = "script:say:"  # followed by the text of every action
TEAM, UNTRAINED = "team:", "untrained:"  # followed by the folder of a saved team, with its weights or without
_GENERAL = ("random", "uniform")  # scripts of every environment
Choices = Callable[[str, Sequence[Message]], Sequence[str]]


def no_script(name: str) -> Script:
    """Raise ModelError, since scripts need an environment."""
    raise ModelError(
        f"{SCRIPT + name!r} is a script of an environment, and no environment is known here; call "
        f"llm_dec_pomdp.load_team(env, {SCRIPT + name!r})"
    )


def no_choices(agent: str, history: Sequence[Message]) -> Sequence[str]:
    """Return (): any text is possible."""
    return ()


def no_saved_team(folder: Path, trained: bool) -> Team:
    """Raise ModelError, since only a run can rebuild the team of another run."""
    raise ModelError(
        f"the saved team {str(folder)!r} can be a member in llm-dec-pomdp eval and train; in Python, load it with "
        "load_team(env, model, weights=...) and take its members with agents.partners.mixed_team"
    )


def no_recorded(file: Path) -> Sequence[Group]:
    """Raise ModelError, since only a run reads recorded episodes."""
    raise ModelError(
        f"the noisy texts in {str(file)!r} can be used in llm-dec-pomdp eval and train; in Python, use "
        "agents.partners.Noisy with collect(team, env)"
    )


class SavedMember(NamedTuple):
    """A member of a saved team, written as "team:FOLDER#AGENT", or "untrained:FOLDER#AGENT" before its training.

    Attributes:
        folder: Folder of the saved team or checkpoint.
        agent: The agent in the saved team; "": the agent of the same name.
        trained: Whether it has the saved weights; False: the weights before training.
    """

    folder: Path
    agent: str
    trained: bool

    @classmethod
    def of(cls, name: str) -> SavedMember | None:
        """Return the member that the name of a model describes; None if it is another model."""
        if not name.startswith((TEAM, UNTRAINED)):
            return None
        folder, _, agent = name.partition(":")[2].partition("#")
        return cls(Path(folder), agent, name.startswith(TEAM))

    def __str__(self) -> str:
        return f"{TEAM if self.trained else UNTRAINED}{self.folder}{'#' if self.agent else ''}{self.agent}"


def check_model(name: str, scripts: Collection[str] = ()) -> None:
    """Check that a model or script exists, before anything is loaded.

    Args:
        name: The name of a model (see `agents.io.models`), "script:NAME", or a `SavedMember`.
        scripts: Names of the environment's own scripts, `facts.scripts`.

    Raises:
        ModelError: There is no such model or script; the message names the nearest.
    """
    if saved := SavedMember.of(name):
        if not any(is_there(saved.folder / file) for file in (DESCRIPTION, CHECKPOINT)):
            raise ModelError(f"{str(saved.folder)!r} is not a saved team or checkpoint; give the folder of one")
        return
    if name.startswith(SAY):
        return
    if not name.startswith(SCRIPT):
        if not (server_model(name) or name in WHOLE_TEAMS):
            locate(name)
        return
    known = [SCRIPT + script for script in (*_GENERAL, *scripts)]
    if name not in known:
        raise ModelError(f"this environment has no script {name!r}; {nearest(name, known)}")


class MemberConfig(ModelOptions):
    """A member of a team: the policy of some agents."""

    agents: list[str]
    """Names ("agent_0") or roles ("summary": all agents of that role)."""
    model: str = "builtin:tiny"
    """Name of a model, script:random, script:uniform (uniform over the possible actions, if these are few),
    script:say:TEXT (the same text at every turn), a script of the environment, such as script:gold (reference texts),
    or a member of a saved team: team:FOLDER, team:FOLDER#AGENT, or untrained:FOLDER for its state before training."""
    train: bool = True
    """False: the weights are frozen."""
    learning_rate: float | None = None
    """Learning rate of this member; by default the algorithm's."""
    fault: Fault | None = None
    """A fault of this member, such as { kind = "silent", share = 0.5 }. A faulty member is not trained."""
    sampling: Annotated[Sampling, PlainSerializer(lambda change: change.model_dump(exclude_unset=True))] = Sampling()
    """Sampling options of these agents that differ from the run: temperature, top_p, top_k, max_new_tokens, stop."""


def _listed(members: Any) -> Any:
    """Return members as a list, also if they are given as a mapping from agents or roles to models."""
    if isinstance(members, str):
        raise ValueError(f"it is a string; write a table of roles and models, for example summary = {members!r}")
    if not isinstance(members, Mapping):
        return members
    listed: list[dict[str, Any]] = []
    for name, model in cast("Mapping[str, Any]", members).items():
        values = cast("Mapping[str, Any]", model) if isinstance(model, Mapping) else {"model": model}
        if "agents" in values:
            raise ValueError(f"{name!r} has its own `agents`; write a list of members, or leave `agents` out")
        listed.append({"agents": [name], **values})
    return listed


Members = Annotated[list[MemberConfig], BeforeValidator(_listed)]
"""A list of members, or a mapping from agents or roles to models, or to tables with `model` and further options."""


class TeamConfig(Config):
    """The content of a team's file."""

    name: str = ""
    """Name of the team in reports; by default the name of the file."""
    members: Members = []
    """The members."""
    start: str = ""
    """Folder of trained weights from which training starts."""


def read_members(path: Path) -> TeamConfig:
    """Read a TOML file that lists the members of a team as `[members]` or `[[members]]`.

    Raises:
        ConfigError: The file is missing or has no members, or a key or value is invalid.
    """
    team = build(TeamConfig, {"name": path.stem, **read_toml(path)}, source=str(path))
    if not team.members:
        raise ConfigError(f"{path}: no [members]; give one line per agent or role, such as: summary = 'builtin:tiny'")
    return team


def check_members(agents: Sequence[str], roles: Sequence[str], members: Sequence[MemberConfig]) -> None:
    """Check that each agent has exactly one member, before anything is loaded.

    Args:
        agents: All agents of the environment, in order.
        roles: Their roles, in the same order.
        members: The members.

    Raises:
        ModelError: An agent or role is unknown, or an agent has no member or several.
    """
    by_name = agents_by_name(agents, roles)
    played: set[str] = set()
    for member in members:
        for name in member.agents:
            if name not in by_name:
                raise ModelError(f"no agent or role {name!r} in this environment; {nearest(name, by_name)}")
            for agent in by_name[name]:
                if agent in played:
                    raise ModelError(
                        f"agent {agent!r} has two members, the second with model {member.model!r} for {name!r}; name "
                        "each agent once, by its name or by its role"
                    )
                played.add(agent)
    for agent, role in zip(agents, roles, strict=True):
        if agent not in played:
            raise ModelError(
                f"agent {agent!r} ({role}) has no member; give a model to every role: {', '.join(dict.fromkeys(roles))}"
            )


def load_team(
    agents: Sequence[str],
    model: str = "builtin:tiny",
    *,
    roles: Sequence[str] = (),
    seed: int = 0,
    train: bool = True,
    menus: Mapping[str, Sequence[str]] | None = None,
    vocabulary: Sequence[str] = (),
    excerpt: Excerpt | None = None,
    **options: Any,
) -> Team:
    """Load a team whose agents all have the same model.

    Args:
        agents: Names of the agents.
        model: Name of the model, see the table of `agents.io.models`.
        roles: Roles of the agents, in order. Agents of one role, such as the invocations of a sub-agent, share all
            weights. Default: every agent has its own role.
        seed: Seed of the initial weights of adapters and of builtin:words.
        train: False: no weights are trainable.
        menus: The possible actions of each agent, for builtin:table, e.g. from `TextDecPOMDP.choices`.
        vocabulary: Words of the environment, for builtin:words.
        excerpt: The place of the task's text in observations, for builtin:extractive.
        options: Fields of `ModelOptions`: sharing="lora", device="cuda:1", ...

    Returns:
        The team.

    Raises:
        ConfigError: An option does not exist or has an invalid value, or options are incompatible.
        ModelError: See `load_model`.
    """
    o = build(ModelOptions, options, source=f"options of {model}")
    o.check_conflicts(trained=train)
    building: dict[str, Any] = {"device": o.devices[0], "dtype": o.dtype, "vocabulary": vocabulary, "seed": seed}
    building |= {"trained": train and o.sharing != "lora", "attention": o.attention}
    building["quantize"] = o.quantize
    role_of = dict(zip(agents, roles or agents, strict=True))
    if model in WHOLE_TEAMS:
        from ..small import extractive, tables  # loads torch

        team = tables(role_of, menus or {}, o) if model == TABLE else extractive(role_of, excerpt, o)
    elif o.sharing == "shared" or server_model(model):
        team = Team(dict.fromkeys(agents, load_policy(model, o, **building)))
    else:
        team = _of_roles(role_of, model, o, building)
    for policy in () if train else team.trainable:
        for parameter in policy.parameters():
            parameter.requires_grad_(False)
    return team


def _of_roles(role_of: Mapping[str, str], model: str, options: ModelOptions, building: Mapping[str, Any]) -> Team:
    """Load a team with weights for each role, named by its first agent; `building` are arguments of `load_model`."""
    first = {role: agent for agent, role in reversed(list(role_of.items()))}
    owners = {agent: first[role] for agent, role in role_of.items()}
    names = list(dict.fromkeys(owners.values()))
    check_extra_body(model, options)
    network, tokenizer = load_model(model, **building)
    running: dict[str, Any] = {"dtype": building["dtype"], "trained": building["trained"], **options.arguments()}
    if options.sharing == "lora":
        from ..language_model.adapters import new_adapters  # loads peft
        from ..language_model.names import adapter_name

        adapters = {agent: adapter_name(owner) for agent, owner in owners.items()}
        network = new_adapters(network, list(dict.fromkeys(adapters.values())), options.lora_rank, building["seed"])
        return Team(dict.fromkeys(owners, policy_of(network, tokenizer, adapters=adapters, **running)))
    networks = [network, *(copy.deepcopy(network) for _ in names[1:])]
    if len(options.devices) > 1:
        networks = [moved.to(device) for moved, device in zip(networks, itertools.cycle(options.devices))]
    policies = [policy_of(moved, tokenizer, **running) for moved in networks]
    return Team({agent: policies[names.index(owner)] for agent, owner in owners.items()})


def assemble_team(
    agents: Sequence[str],
    roles: Sequence[str],
    members: Sequence[MemberConfig],
    *,
    scripts: Collection[str] = (),
    script: Callable[[str], Script] = no_script,
    choices: Choices = no_choices,
    menus: Mapping[str, Sequence[str]] | None = None,
    vocabulary: Sequence[str] = (),
    excerpt: Excerpt | None = None,
    seed: int = 0,
    load: Callable[..., Team] = load_team,
    saved: Callable[[Path, bool], Team] = no_saved_team,
    recorded: Callable[[Path], Sequence[Group]] = no_recorded,
) -> Team:
    """Load a team from its members.

    Args:
        agents: All agents of the environment, in order.
        roles: Their roles, in the same order.
        members: The members; every agent belongs to exactly one of them.
        scripts: Names of the environment's own scripts, `facts.scripts`.
        script: A function from the NAME of "script:NAME" to a scripted team, e.g. `TextDecPOMDP.script`.
        choices: A function from an agent and its history to its possible actions, for "script:uniform", e.g.
            `TextDecPOMDP.choices`.
        menus, vocabulary, excerpt, seed: See `load_team`.
        load: A function that loads the models of a member, such as `load_team`.
        saved: A function that loads the whole team in the folder of a `SavedMember`, with or without its weights.
        recorded: A function that reads the episodes in a file of traces, for noisy members.

    Returns:
        The team.

    Raises:
        ModelError: See `check_members`; or a model cannot be loaded, or a saved team has no such agent.
    """
    check_members(agents, roles, members)
    by_name = agents_by_name(agents, roles)
    for member in members if len(members) > 1 else ():  # check all names before loading the first model
        check_model(member.model, scripts)
    role_of = dict(zip(agents, roles, strict=True))
    words = {"menus": menus, "vocabulary": vocabulary, "excerpt": excerpt}
    players: dict[str, Policy] = {}
    rates: dict[str, float] = {}
    samplings: dict[str, Sampling] = {}
    for member in members:
        names = [agent for name in member.agents for agent in by_name[name]]
        if member.model.startswith(SCRIPT):
            check_model(member.model, scripts)
            players |= dict.fromkeys(names, _scripted(member.model.removeprefix(SCRIPT), script, choices))
        elif place := SavedMember.of(member.model):
            players |= _members_of(place, saved(place.folder, place.trained), names, train=member.train)
        else:
            arguments: dict[str, Any] = {"seed": seed, "train": member.train, **words, **member.options()}
            players |= load(names, member.model, roles=[role_of[name] for name in names], **arguments).members
        if member.fault is not None:
            texts = recorded(Path(member.fault.traces)) if member.fault.traces else ()
            players |= {name: member.fault.of(players[name], texts) for name in names}
        if member.learning_rate is not None:
            rates |= dict.fromkeys(names, member.learning_rate)
        if member.sampling.model_fields_set:
            samplings |= dict.fromkeys(names, member.sampling)
    return Team({agent: players[agent] for agent in agents}, learning_rates=rates, samplings=samplings)


def agents_by_name(agents: Sequence[str], roles: Sequence[str]) -> dict[str, list[str]]:
    """Return lists of agents by every name that a member may use: the name of an agent, or a role."""
    by_role = {role: [agent for agent, of in zip(agents, roles, strict=True) if of == role] for role in roles}
    return by_role | {agent: [agent] for agent in agents}


def _members_of(place: SavedMember, team: Team, names: Sequence[str], *, train: bool) -> dict[str, Policy]:
    """Return the policies of a saved team for some agents."""
    found: dict[str, Policy] = {}
    for name in names:
        agent = place.agent or name
        if agent not in team.members:
            raise ModelError(f"the team in {str(place.folder)!r} has no {agent!r}; {nearest(agent, team.members)}")
        policy = team.members[agent]
        found[name] = Renamed(policy, agent) if agent != name else policy if train else Frozen(policy)
    return found


def _scripted(name: str, script: Callable[[str], Script], choices: Choices) -> Policy:
    if name.startswith("say:"):
        return Scripted(lambda agent, history: name.removeprefix("say:"))
    if name == "random":
        return RandomText()
    return Uniform(choices) if name == "uniform" else Scripted(script(name))
