"""Environments and learners for teams of language models.

    import llm_dec_pomdp

    env = llm_dec_pomdp.make("coophumaneval-v0")
    observations, infos = env.reset(seed=0)

Importing this package loads neither torch nor transformers.
"""

from .__about__ import __version__
from .algorithms.registration import register_algorithm
from .envs import check_env, make, register, registry, spec

__all__ = ["__version__", "check_env", "make", "register", "register_algorithm", "registry", "spec"]
