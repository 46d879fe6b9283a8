"""Any registered environment, with what it cannot be made without."""

from __future__ import annotations

import functools
from typing import Any

import llm_dec_pomdp
from llm_dec_pomdp.envs.registration import least_arguments

# One version of every task: what is put around an environment does not depend on its reward.
TASKS = [env_id for env_id in sorted(llm_dec_pomdp.registry) if env_id.endswith("-v0")]
# Those for laws: modules-v0 is judged by the programs that judge classeval-v0, which take a tenth of its time.
CHECKED = [env_id for env_id in TASKS if env_id != "modules-v0"]


@functools.cache
def seen(env_id: str) -> Any:
    """To look at, not to play."""
    return make_least(env_id)


def make_least(env_id: str, **options: Any) -> Any:
    return llm_dec_pomdp.make(env_id, **{**least_arguments(env_id), **options})
