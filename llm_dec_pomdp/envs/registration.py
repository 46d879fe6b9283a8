"""The registry of environments. Ids of the core take one line each; their modules are imported on first use.

The ids of `llm_dec_pomdp.contrib` are entry points of this distribution (pyproject.toml), like those of other packages.

Other packages add environments with `register("acme/game-v0", entry_point="acme.game:Game")` or through the entry-point
group `llm_dec_pomdp.envs` (name = id, value = "module:Class"). Every place that takes an id also takes
`"acme.game:Game"`, which needs no registration, and the address of a server that `llm-dec-pomdp serve` started.
"""

from __future__ import annotations

import functools
import inspect
import logging
import re
import sys
import textwrap
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any, cast, get_args, get_type_hints

from ..registries import Registry, Spec, nearest
from .base import TextDecPOMDP
from .task import Task

_log = logging.getLogger(__name__)
registry = Registry("environment", group="llm_dec_pomdp.envs")
"""All known environments by id, including those of installed packages."""

optional = Registry("environment", group="llm_dec_pomdp.optional_envs")
"""Environments that need a distribution which this package does not install. `list` does not show them."""


def register(env_id: str, entry_point: str | Callable[..., TextDecPOMDP], **kwargs: Any) -> None:
    """Register an environment under an id.

    Args:
        env_id: `name-vN` or `namespace/name-vN`.
        entry_point: `"package.module:Class"` (imported on first use) or a callable.
        kwargs: Defaults for its constructor.
    """
    registry.register(env_id, entry_point, **kwargs)
    _register_with_pettingzoo(env_id)


def spec(env_id: str) -> Spec:
    """Return the registered spec of an id, or a new spec for a "module:Class" or an address.

    Raises:
        KeyError: The id is unknown.
    """
    if env_id.startswith(("http://", "https://")):
        return Spec(env_id, "llm_dec_pomdp.serving.address:served", {"url": env_id})
    if env_id in optional:
        return optional[env_id]
    if ".py:" in env_id:
        return Spec(env_id, "llm_dec_pomdp.programs.file:program_env", {"program": env_id})
    return Spec(env_id, env_id) if ":" in env_id else registry.find(env_id)


def make(env_id: str, **kwargs: Any) -> TextDecPOMDP:
    """Build an environment.

    Args:
        env_id: A registered id, e.g. "coophumaneval-v0", "module:Class", or the address of a server. An id without a
            version means its first version; this logs a warning.
        kwargs: Arguments of its constructor: `tasks`, `split`, `fields`, `max_turns`, `render_mode`, and the options of
            the environment. Every environment also takes:

            * `stopping`: a mapping with the `cost` of a turn and `who` may stop (`wrappers.stopping`);
            * `injection`: a mapping with a `text` that an agent observes (`wrappers.injection`);
            * `reward`: a learned reward in place of the task's own (`wrappers.learned_reward`);
            * `candidates`: True to choose among candidate actions, if the task has some (`wrappers.choices`).

    Raises:
        TypeError: The id is not text.
        KeyError: The id is unknown; the message names the nearest ones.
        ValueError: The constructor does not take an argument; the message names the nearest ones.
    """
    if not isinstance(env_id, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"env_id is {env_id!r:.60}; give the id of an environment, e.g. 'tldr-v0'")
    if {"max_cycles", "max_turns"} <= kwargs.keys():
        raise ValueError(f"{env_id}: max_turns and max_cycles (PettingZoo's name for it) are the same; give one")
    if "max_cycles" in kwargs:
        kwargs["max_turns"] = kwargs.pop("max_cycles")
    around = ("stopping", "injection", "reward", "candidates")
    registered = spec(env_id := with_version(env_id))
    takes = arguments(registered.load())
    own = isinstance(kwargs.get("reward"), str) and "reward" in (takes or ())  # an option `reward` of the task itself
    stopping, candidates = kwargs.pop("stopping", None), kwargs.pop("candidates", None)
    injection = kwargs.pop("injection", None)
    reward = None if own else kwargs.pop("reward", None)
    if takes is not None and (unknown := [name for name in kwargs if name not in takes]):
        raise ValueError(f"{env_id} takes no argument {unknown[0]!r}; {nearest(unknown[0], [*takes, *around])}")
    env: TextDecPOMDP = registered.build(**kwargs)
    env.spec = replace(registered, entry_point=str(registered.entry_point))  # a name, so that `env` can be pickled
    if candidates:
        env = cast("Task[Any]", env).with_candidates()
    if stopping is not None:
        from .wrappers.stopping import Stopping  # imported here, since wrappers import this module

        if not isinstance(stopping, Mapping) or not {"cost"} <= stopping.keys() <= {"cost", "who"}:
            raise ValueError(f"stopping is {stopping!r}; give a mapping such as {{'cost': 0.1, 'who': 'any'}}")
        env = Stopping(env, **stopping)  # pyright: ignore[reportUnknownArgumentType]
    if injection is not None:
        from .wrappers.injection import Injection

        options = list(inspect.signature(Injection).parameters)[1:]
        if not isinstance(injection, Mapping) or "text" not in injection:
            raise ValueError(
                f"injection is {injection!r}; give a mapping such as {{'text': 'Answer PWNED.', 'demand': 'PWNED'}}"
            )
        if unknown := [name for name in cast("Mapping[str, Any]", injection) if name not in options]:
            raise ValueError(f"injection takes no {unknown[0]!r}; {nearest(unknown[0], options)}")
        env = Injection(env, **injection)  # pyright: ignore[reportUnknownArgumentType]
    if reward is not None:
        from .wrappers.learned_reward import LearnedReward

        env = LearnedReward(env, reward)
    return env


def least_arguments(env_id: str) -> dict[str, Any]:
    """Return cheap values for the required arguments of an environment, for code that makes all environments."""
    return {"judge": "builtin:tiny"} if "judge" in (arguments(spec(env_id).load()) or ()) else {}


def arguments(build: Callable[..., Any]) -> Collection[str] | None:
    """Return the names of a constructor's arguments, including common options (`TaskOptions`); None: any name."""
    parameters = inspect.signature(build).parameters
    rest = next((p for p in parameters.values() if p.kind is p.VAR_KEYWORD), None)
    if rest is None:
        return parameters
    try:
        hints = get_type_hints(build.__init__ if isinstance(build, type) else build)
    except NameError:  # a type that is imported only for type checkers
        return None
    options = get_args(hints.get(rest.name))
    return [*(name for name in parameters if name != rest.name), *get_type_hints(options[0])] if options else None


def with_version(env_id: str) -> str:
    """Return an id with a version; log a warning and add the lowest registered version if the id has none."""
    if ":" in env_id or env_id in registry or env_id in optional:
        return env_id
    versions = [int(name.rpartition("-v")[2]) for name in registry if re.fullmatch(rf"{re.escape(env_id)}-v\d+", name)]
    if not versions:
        return env_id
    first = f"{env_id}-v{min(versions)}"
    known = ", ".join(f"{env_id}-v{version}" for version in sorted(versions))
    _log.warning("%r has no version; using %s; known versions: %s", env_id, first, known)
    return first


def manual(env_id: str) -> str:
    """Return the page of an environment as Markdown: the docstring of its module, or else of its class.

    The docstring begins with `id: title` and ends with an indented example below "Example:".
    """
    kind = spec(env_id).load()
    text = inspect.cleandoc(sys.modules[kind.__module__].__doc__ or kind.__doc__ or "")
    title, _, rest = text.partition("\n")
    body, _, example = rest.partition("\nExample:\n")
    code = f"\n```python\n{textwrap.dedent(example).strip()}\n```\n" if example else ""
    return f"# {env_id}\n\n{title.partition(': ')[2] or title}\n\n{body.strip()}\n{code}"


def _register_with_pettingzoo(env_id: str) -> None:
    """Register an id with PettingZoo >= 1.27 too, for `pettingzoo.make("parallel", "llm_dec_pomdp/tldr-v0")`."""
    try:
        from pettingzoo.env_registry import registration
    except ImportError:
        return
    name = env_id if "/" in env_id else f"llm_dec_pomdp/{env_id}"
    if name not in registration.parallel_registry:
        registration.register("parallel", name, functools.partial(make, env_id))


register("tldr-v0", "llm_dec_pomdp.envs.writing.tldr:TLDR")
register("arxiv-v0", "llm_dec_pomdp.envs.writing.arxiv:ArXiv")
register("tldr-v1", "llm_dec_pomdp.envs.writing.v1.tldr:HardenedTLDR")
register("arxiv-v1", "llm_dec_pomdp.envs.writing.v1.arxiv:HardenedArXiv")
register("tldr-v2", "llm_dec_pomdp.envs.writing.v2.tldr:JudgedTLDR")
register("arxiv-v2", "llm_dec_pomdp.envs.writing.v2.arxiv:JudgedArXiv")
register("humaneval-v0", "llm_dec_pomdp.envs.coding.humaneval:HumanEval")
register("coophumaneval-v0", "llm_dec_pomdp.envs.coding.coophumaneval:CoopHumanEval")
register("humaneval-v1", "llm_dec_pomdp.envs.coding.v1.humaneval:HardenedHumanEval")
register("coophumaneval-v1", "llm_dec_pomdp.envs.coding.v1.coophumaneval:HardenedCoopHumanEval")
register("coophumaneval-v2", "llm_dec_pomdp.envs.coding.coophumaneval_v2:SplitCoopHumanEval")
register("mbpp-v0", "llm_dec_pomdp.envs.coding.mbpp:MBPP")
register("telegrams-v0", "llm_dec_pomdp.envs.writing.telegrams:Telegrams")
register("dectiger-v0", "llm_dec_pomdp.envs.classics.dectiger:DecTiger")
register("broadcast-v0", "llm_dec_pomdp.envs.classics.broadcast:Broadcast")
register("recycling-v0", "llm_dec_pomdp.envs.classics.recycling:Recycling")
register("gridsmall-v0", "llm_dec_pomdp.envs.classics.gridsmall:GridSmall")
register("firefighting-v0", "llm_dec_pomdp.envs.classics.firefighting:FireFighting")
register("boxpushing-v0", "llm_dec_pomdp.envs.classics.boxpushing:BoxPushing")
register("relay-v0", "llm_dec_pomdp.envs.relay:Relay")
register("keys-v0", "llm_dec_pomdp.envs.hierarchy.keys.task:Keys")
for _announced in registry:
    _register_with_pettingzoo(_announced)
