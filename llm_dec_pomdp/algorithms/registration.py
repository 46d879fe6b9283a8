"""Algorithm names: one line each, imported when first used.

Packages outside this repository add theirs with `register_algorithm("mine", "my.module:Mine")`, through the entry-point
group `llm_dec_pomdp.algorithms`, or not at all: every place that takes a name takes `"my.module:Mine"` too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..registries import Registry, Spec

CONTROL = "_shuffled"  # after the name of a learner: its control, see `controls`
algorithms = Registry("algorithm", group="llm_dec_pomdp.algorithms")


def register_algorithm(name: str, entry_point: str | Callable[..., Any], **kwargs: Any) -> None:
    """Make an algorithm known under a name.

    Args:
        name: What `--algorithm` takes.
        entry_point: `"package.module:Class"` (imported on first use) or a callable.
        kwargs: Defaults for its constructor.
    """
    algorithms.register(name, entry_point, **kwargs)


class _Control(Spec):
    """NAME_shuffled, the control of a learner that is found by its NAME."""

    def load(self) -> Callable[..., Any]:
        """The class of the control."""
        from .controls import shuffled  # whoever looks for names loads nothing

        return shuffled(super().load())


def find_algorithm(name: str) -> Spec:
    """The spec of a registered name or of a `"module:Class"` path; with `_shuffled` after it, of its control.

    Raises:
        KeyError: Unknown name; the message names the nearest ones.
    """
    learner = name.removesuffix(CONTROL)
    if learner != name and name not in algorithms:
        spec = find_algorithm(learner)
        return _Control(name, spec.entry_point, spec.kwargs)
    return Spec(name, name) if ":" in name else algorithms.find(name)


def build_algorithm(name: str, options: Mapping[str, Any], team: Any, sampling: Any) -> Any:
    """An algorithm by its name, for a team, with options as a user wrote them.

    Raises:
        ConfigError: An option that it does not have, or a value that it does not take.
    """
    from ..config import build  # whoever lists names needs none of it

    spec = find_algorithm(name)
    kind: Any = spec.load()
    return kind(team, sampling, build(kind.Config, {**spec.kwargs, **options}, source=f"options of {name}"))


register_algorithm("single", "llm_dec_pomdp.algorithms.baselines:Single")
register_algorithm("concat", "llm_dec_pomdp.algorithms.baselines:Concat")
register_algorithm("sequential", "llm_dec_pomdp.algorithms.baselines:Sequential")
register_algorithm("discussion", "llm_dec_pomdp.algorithms.baselines:Discussion")
register_algorithm("grpo", "llm_dec_pomdp.algorithms.magrpo:GRPO")
register_algorithm("magrpo", "llm_dec_pomdp.algorithms.magrpo:MAGRPO")
register_algorithm("mareinforce", "llm_dec_pomdp.algorithms.magrpo:MAREINFORCE")
register_algorithm("marloo", "llm_dec_pomdp.algorithms.magrpo:MARLOO")
register_algorithm("maremax", "llm_dec_pomdp.algorithms.magrpo:MAREMAX")
register_algorithm("shuffled", "llm_dec_pomdp.algorithms.controls:Shuffled")
register_algorithm("mgrpo", "llm_dec_pomdp.algorithms.mgrpo:MGRPO")
register_algorithm("imitation", "llm_dec_pomdp.algorithms.imitation:Imitation")
register_algorithm("madpo", "llm_dec_pomdp.algorithms.madpo:MADPO")
register_algorithm("iac", "llm_dec_pomdp.algorithms.actor_critic:IAC")
register_algorithm("maac", "llm_dec_pomdp.algorithms.actor_critic:MAAC")
register_algorithm("reward_model", "llm_dec_pomdp.algorithms.reward_model:RewardModel")
