"""Teams of built-in policies that are not language models: tables, and policies that copy sentences."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ..types import Excerpt, grouped
from .base import Policy, Team
from .extractive import Extractive
from .io.models import EXTRACTIVE, TABLE, ModelError
from .options import ModelOptions
from .table import Table


def tables(role_of: Mapping[str, str], menus: Mapping[str, Sequence[str]], options: ModelOptions) -> Team:
    """Return a team with one table per role, or one for all roles, on the CPU.

    Args:
        role_of: The role of each agent.
        menus: The possible actions of each agent.
        options: Options of the models.

    Raises:
        ModelError: An agent has no menu, or an option does not apply to tables.
    """
    _refuse_language_options(f"{TABLE!r} is a small table", options)
    without = [agent for agent in role_of if not menus.get(agent)]
    if without:
        raise ModelError(
            f"{TABLE!r} needs a list of possible actions, but {without[0]!r} writes freely in this environment or "
            "protocol; give builtin:tiny or another language model"
        )
    of_menus = {role: tuple(menus[agent]) for agent, role in role_of.items()}
    if options.sharing == "lora" or (options.sharing == "shared" and len(set(of_menus.values())) > 1):
        raise ModelError(f"sharing is {options.sharing!r}, which these tables do not support; give 'separate'")
    return _by_role(role_of, options, lambda agents: Table(menus[agents[-1]]))


def extractive(role_of: Mapping[str, str], excerpt: Excerpt | None, options: ModelOptions) -> Team:
    """Return a team with one `Extractive` policy per role, or one for all roles.

    Args:
        role_of: The role of each agent.
        excerpt: The place of the source text in observations.
        options: Options of the models.

    Raises:
        ModelError: The environment declares no excerpt, a role is unknown, or an option does not apply.
    """
    _refuse_language_options(f"{EXTRACTIVE!r} is a small linear policy", options)
    if excerpt is None:
        raise ModelError(
            f"{EXTRACTIVE!r} copies sentences of a source text, but this environment does not declare where its "
            "observations contain one (`Facts.excerpt`); give builtin:tiny or another language model"
        )
    if options.sharing == "lora":
        raise ModelError(f"sharing is 'lora', and {EXTRACTIVE!r} has no adapters; give 'separate' or 'shared'")
    unknown = [agent for agent, role in role_of.items() if role not in excerpt.roles]
    if unknown and len(role_of) > 1:
        raise ModelError(
            f"{unknown[0]!r} has the role {role_of[unknown[0]]!r}, but the text is for the roles "
            f"{', '.join(excerpt.roles)}; give load_team the roles of the agents"
        )
    written = {agent: (role,) if role in excerpt.roles else excerpt.roles for agent, role in role_of.items()}
    return _by_role(role_of, options, lambda agents: Extractive(excerpt, {agent: written[agent] for agent in agents}))


def _by_role(role_of: Mapping[str, str], options: ModelOptions, make: Callable[[Sequence[str]], Policy]) -> Team:
    """Return a team with one policy per role, or one for all; `make` builds a policy from the agents that use it."""
    groups = grouped(role_of, lambda agent: role_of[agent] if options.sharing == "separate" else "")
    players = {agent: policy for agents in groups.values() for policy in [make(agents)] for agent in agents}
    return Team({agent: players[agent] for agent in role_of})


def _refuse_language_options(kind: str, options: ModelOptions) -> None:
    """Raise ModelError if an option applies only to language models; `kind` describes the model in the message."""
    for name, value in options.options().items():
        allowed = (ModelOptions.model_fields[name].default, {"device": "cpu", "dtype": "float32"}.get(name))
        if name not in ("sharing", "lora_rank") and value not in allowed:
            raise ModelError(f"{name} is {value!r}, but {kind}; leave {name} out")
