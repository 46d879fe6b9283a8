"""Environment ids of the core: one line each, imported when first made.

The ids of `llm_dec_pomdp.contrib` are entry points of this distribution (pyproject.toml), like those of other packages.

Other packages add theirs with `register("acme/game-v0", entry_point="acme.game:Game")` or through the entry-point group
`llm_dec_pomdp.envs` (name = id, value = "module:Class"). Without either, every place that takes an id takes
`"acme.game:Game"` too, and the address of a server that `llm-dec-pomdp serve` started.
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
"""All environments that are known, by id, those of installed packages too."""

optional = Registry("environment", group="llm_dec_pomdp.optional_envs")
"""Environments that need a distribution which is not installed with the package; they are in no list."""


def register(env_id: str, entry_point: str | Callable[..., TextDecPOMDP], **kwargs: Any) -> None:
    """Make an environment known under an id.

    Args:
        env_id: `name-vN` or `namespace/name-vN`.
        entry_point: `"package.module:Class"` (imported on first use) or a callable.
        kwargs: Defaults for its constructor.
    """
    registry.register(env_id, entry_point, **kwargs)
    _register_with_pettingzoo(env_id)


def spec(env_id: str) -> Spec:
    """What is registered under `env_id`, or a spec of the "module:Class" or address. An unknown id is a KeyError."""
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
        env_id: A registered id, e.g. "coophumaneval-v0", "module:Class", or the address of a server. The first version
            of an id that has none is taken, which is logged as a warning.
        kwargs: For its constructor: `tasks`, `split`, `fields`, `max_turns`, `render_mode`, and what it adds. Every
            environment also takes `stopping`, a mapping with the `cost` of a turn and `who` may stop (see
            `wrappers.stopping`), and `reward`, which pays in place of the task (see `wrappers.learned_reward`). Tasks
            with offered texts take `candidates=True` (see `wrappers.choices`).

    Raises:
        TypeError: The id is no text.
        KeyError: Unknown id; the message names the nearest ones.
        ValueError: An argument that its constructor does not take; the message names the nearest ones.
    """
    if not isinstance(env_id, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"env_id is {env_id!r:.60}; give the id of an environment, e.g. 'tldr-v0'")
    if {"max_cycles", "max_turns"} <= kwargs.keys():
        raise ValueError(f"{env_id}: max_turns and max_cycles (PettingZoo's name for it) are the same; give one")
    if "max_cycles" in kwargs:
        kwargs["max_turns"] = kwargs.pop("max_cycles")
    around = ("stopping", "reward", "candidates")
    registered = spec(env_id := with_version(env_id))
    takes = arguments(registered.load())
    own = isinstance(kwargs.get("reward"), str) and "reward" in (takes or ())  # of those that the task offers
    stopping, candidates = kwargs.pop("stopping", None), kwargs.pop("candidates", None)
    reward = None if own else kwargs.pop("reward", None)
    if takes is not None and (unknown := [name for name in kwargs if name not in takes]):
        raise ValueError(f"{env_id} takes no argument {unknown[0]!r}; {nearest(unknown[0], [*takes, *around])}")
    env: TextDecPOMDP = registered.build(**kwargs)
    env.spec = replace(registered, entry_point=str(registered.entry_point))  # an environment with it can be pickled
    if candidates:
        env = cast("Task[Any]", env).with_candidates()
    if stopping is not None:
        from .wrappers.stopping import Stopping  # here, because wrappers make environments

        if not isinstance(stopping, Mapping) or not {"cost"} <= stopping.keys() <= {"cost", "who"}:
            raise ValueError(f"stopping is {stopping!r}; give a mapping such as {{'cost': 0.1, 'who': 'any'}}")
        env = Stopping(env, **stopping)  # pyright: ignore[reportUnknownArgumentType]
    if reward is not None:
        from .wrappers.learned_reward import LearnedReward

        env = LearnedReward(env, reward)
    return env


def least_arguments(env_id: str) -> dict[str, Any]:
    """The arguments without which an environment cannot be made, with small values, to look at all environments."""
    return {"judge": "builtin:tiny"} if "judge" in (arguments(spec(env_id).load()) or ()) else {}


def arguments(build: Callable[..., Any]) -> Collection[str] | None:
    """The names of the arguments of a constructor, those of common options (`TaskOptions`) too; None: any."""
    parameters = inspect.signature(build).parameters
    rest = next((p for p in parameters.values() if p.kind is p.VAR_KEYWORD), None)
    if rest is None:
        return parameters
    try:
        hints = get_type_hints(build.__init__ if isinstance(build, type) else build)
    except NameError:  # imported for type checkers alone
        return None
    options = get_args(hints.get(rest.name))
    return [*(name for name in parameters if name != rest.name), *get_type_hints(options[0])] if options else None


def with_version(env_id: str) -> str:
    """The first version of an id that has none, which is v0, the task as published; any other as it is."""
    if ":" in env_id or env_id in registry or env_id in optional:
        return env_id
    versions = [int(name.rpartition("-v")[2]) for name in registry if re.fullmatch(rf"{re.escape(env_id)}-v\d+", name)]
    if not versions:
        return env_id
    first = f"{env_id}-v{min(versions)}"
    known = ", ".join(f"{env_id}-v{version}" for version in sorted(versions))
    _log.warning("%r has no version, and %s is taken; known: %s", env_id, first, known)
    return first


def manual(env_id: str) -> str:
    """Return the manual of an environment as Markdown: the docstring of its module, or else of its class.

    A docstring begins with `id: what it is` and ends with an indented example under "Example:".
    """
    kind = spec(env_id).load()
    text = inspect.cleandoc(sys.modules[kind.__module__].__doc__ or kind.__doc__ or "")
    title, _, rest = text.partition("\n")
    body, _, example = rest.partition("\nExample:\n")
    code = f"\n```python\n{textwrap.dedent(example).strip()}\n```\n" if example else ""
    return f"# {env_id}\n\n{title.partition(': ')[2] or title}\n\n{body.strip()}\n{code}"


def _register_with_pettingzoo(env_id: str) -> None:
    """Let `pettingzoo.make("parallel", "llm_dec_pomdp/tldr-v0")` find it too; PettingZoo has a registry since 1.27."""
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
