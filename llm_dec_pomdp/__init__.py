"""Environments and learners for teams of language models.

    import llm_dec_pomdp

    env = llm_dec_pomdp.make("coophumaneval-v0")
    observations, infos = env.reset(seed=0)

    team = llm_dec_pomdp.load_team(env)
    llm_dec_pomdp.train(team, env, "magrpo", steps=40)
    print(llm_dec_pomdp.evaluate(team, llm_dec_pomdp.make("coophumaneval-v0", split="test")))

Importing this package does not import torch or transformers; loading a model does.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from .__about__ import __version__
from .algorithms.registration import register_algorithm
from .envs import check_env, make, register, registry, spec

if TYPE_CHECKING:
    from .agents import Sampling, Team
    from .agents.io.save import save_team
    from .api import collect, evaluate, load_team, train
    from .evaluation.crossplay import crossplay
    from .programs import from_program, reward

__all__ = [
    "Sampling",
    "Team",
    "__version__",
    "check_env",
    "collect",
    "crossplay",
    "evaluate",
    "from_program",
    "load_team",
    "make",
    "register",
    "register_algorithm",
    "registry",
    "reward",
    "save_team",
    "spec",
    "train",
]
_WHEN_USED = {
    **dict.fromkeys(("Sampling", "Team"), ".agents"),
    "crossplay": ".evaluation.crossplay",
    "save_team": ".agents.io.save",
    **dict.fromkeys(("from_program", "reward"), ".programs"),
    **dict.fromkeys(("collect", "evaluate", "load_team", "train"), ".api"),
}


def __getattr__(name: str) -> Any:
    if name not in _WHEN_USED:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_WHEN_USED[name], __name__), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
