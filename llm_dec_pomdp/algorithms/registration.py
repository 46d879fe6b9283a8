"""Registry of algorithms by name; a module is imported when its algorithm is first used.

Other packages register theirs with `register_algorithm("mine", "my.module:Mine")`, or through the entry-point group
`llm_dec_pomdp.algorithms`. Registration is optional: `"my.module:Mine"` is accepted wherever a name is.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..registries import Registry, Spec, load_attribute

if TYPE_CHECKING:
    from ..agents.base import Sampling, Team
    from .base import Algorithm, Options

CONTROL = "_shuffled"  # suffix of a learner's name: its shuffled-reward control, see `controls`
_MAGRPO = "llm_dec_pomdp.algorithms.magrpo:MAGRPO"
_OPTIONS = "llm_dec_pomdp.algorithms.options:MAGRPOConfig"
algorithms = Registry("algorithm", group="llm_dec_pomdp.algorithms")


@dataclass(frozen=True)
class AlgorithmSpec(Spec):
    """An algorithm by name: its class, and the options that the name fixes (`kwargs`).

    Attributes:
        acts_under: Its communication protocol; "" for the protocol of the class.
        summary: Description in one line; "" for the first line of the class docstring.
        config_entry_point: `"package.module:Class"` of its options, if that can be imported without torch; "" for the
            `Config` of the class.
    """

    acts_under: str = ""
    summary: str = ""
    config_entry_point: str = ""

    def load(self) -> type[Algorithm]:
        """Load the class.

        Raises:
            ConfigError: It is not a subclass of `Algorithm`, or its constructor takes other arguments.
        """
        from ..config import ConfigError  # not needed to list names
        from .base import Algorithm

        kind = super().load()
        if not (isinstance(kind, type) and issubclass(kind, Algorithm)):
            raise ConfigError(
                f"algorithm {self.name!r} is {kind!r:.80}, not a subclass of Algorithm; derive it from "
                "llm_dec_pomdp.algorithms.base.Algorithm"
            )
        try:
            inspect.signature(kind).bind("team", "sampling", "config")
        except TypeError as error:
            raise ConfigError(
                f"algorithm {self.name!r} cannot be built as {kind.__name__}(team, sampling, config): {error}; let its "
                "__init__ take these three arguments"
            ) from None
        return kind

    @property
    def protocol(self) -> str:
        """The communication protocol of its team."""
        return self.acts_under or self.load().protocol

    def about(self) -> str:
        """Return the summary, or the first line of the docstring of the class."""
        return self.summary or super().about()

    def config(self, options: Mapping[str, Any], source: str = "") -> Options:
        """Build the configuration of the algorithm from a user's options.

        Args:
            options: Values by name, as in `options` of a suite.
            source: Where the options come from, for error messages.

        Raises:
            ConfigError: An unknown option, an invalid value, or another value of an option that the name fixes.
        """
        from ..config import ConfigError, build  # not needed to list names

        for name, value in self.kwargs.items():
            if options.get(name, value) != value:
                raise ConfigError(
                    f"{name} is {options[name]!r}, but {self.name} fixes it to {value!r}; leave the option out"
                )
        path = self.config_entry_point
        kind: Any = load_attribute(path, what=self.name) if path else self.load().Config
        config: Options = build(kind, {**self.kwargs, **options}, source=source or f"options of {self.name}")
        return config

    def build(self, team: Team, sampling: Sampling, config: Options) -> Algorithm:
        """Build the algorithm for a team.

        Raises:
            TypeError: The configuration is not of its class.
        """
        kind = self.load()
        if not isinstance(config, kind.Config):
            raise TypeError(
                f"{self.name} takes a {kind.Config.__name__}, and its options are a {type(config).__name__}; build "
                f"them with find_algorithm({self.name!r}).config({{...}})"
            )
        return kind(team, sampling, config)


def register_algorithm(
    name: str,
    entry_point: str | Callable[..., Any],
    *,
    protocol: str = "",
    about: str = "",
    config: str = "",
    **options: Any,
) -> None:
    """Register an algorithm under a name.

    Args:
        name: Its name, as in `--algorithm NAME`.
        entry_point: `"package.module:Class"` (imported on first use) or a class.
        protocol: Its communication protocol; left out, the protocol of the class.
        about: Description in one line; left out, the first line of the class docstring.
        config: `"package.module:Class"` of the `Config` of the class, if that can be imported without torch. Wrong
            options are then refused before torch is loaded.
        options: Options that the name fixes; other values are refused.
    """
    algorithms.add(AlgorithmSpec(name, entry_point, options, protocol, about, config))


class _Control(AlgorithmSpec):
    """The shuffled-reward control of a learner; the entry point is the learner's class or path."""

    def load(self) -> type[Algorithm]:
        """Load the learner's class and return the class of its control."""
        from .controls import shuffled_reward_control  # listing names loads nothing

        return shuffled_reward_control(super().load())


def find_algorithm(name: str) -> AlgorithmSpec:
    """Return the spec of a registered name or a `"module:Class"` path; with the suffix `_shuffled`, of its control.

    Raises:
        KeyError: Unknown name; the message names the nearest ones.
    """
    learner = name.removesuffix(CONTROL)
    if learner != name and name not in algorithms:
        spec = find_algorithm(learner)
        return _Control(
            name, spec.entry_point, spec.kwargs, spec.acts_under, config_entry_point=spec.config_entry_point
        )
    spec = Spec(name, name) if ":" in name else algorithms.find(name)
    return spec if isinstance(spec, AlgorithmSpec) else AlgorithmSpec(name, spec.entry_point)


def build_algorithm(name: str, options: Mapping[str, Any], team: Team, sampling: Sampling) -> Algorithm:
    """Build an algorithm by its name for a team, from options as a user wrote them.

    Raises:
        ConfigError: See `AlgorithmSpec.config`.
    """
    spec = find_algorithm(name)
    return spec.build(team, sampling, spec.config(options))


def learns(algorithm: str) -> bool:
    """Return whether an algorithm is a learner; loads its module."""
    return find_algorithm(algorithm).load().learns()


register_algorithm("single", "llm_dec_pomdp.algorithms.baselines:Single")
register_algorithm("concat", "llm_dec_pomdp.algorithms.baselines:Concat")
register_algorithm("sequential", "llm_dec_pomdp.algorithms.baselines:Sequential")
register_algorithm("discussion", "llm_dec_pomdp.algorithms.baselines:Discussion")
register_algorithm("magrpo", _MAGRPO, config=_OPTIONS)
register_algorithm(
    "grpo",
    _MAGRPO,
    config=_OPTIONS,
    protocol="centralized",
    about="MAGRPO for a single agent, which writes all parts.",
)
register_algorithm(
    "mareinforce",
    _MAGRPO,
    config=_OPTIONS,
    about="A = R: no baseline. Unbiased; every return other than 0 changes the weights.",
    advantage="raw",
)
register_algorithm(
    "marloo",
    _MAGRPO,
    config=_OPTIONS,
    about="A = R - mean of the other returns (arXiv:2402.14740): unbiased, in units of the reward.",
    advantage="leave_one_out",
)
register_algorithm(
    "maremax",
    _MAGRPO,
    config=_OPTIONS,
    about="A = R - max R: makes all but the best less likely (in ReMax, arXiv:2310.10505, R of the greedy completion).",
    advantage="max",
)
algorithms.add(_Control("shuffled", _MAGRPO, config_entry_point=_OPTIONS))
register_algorithm(
    "mgrpo", "llm_dec_pomdp.algorithms.mgrpo:MGRPO", config="llm_dec_pomdp.algorithms.options:MGRPOConfig"
)
register_algorithm("imitation", "llm_dec_pomdp.algorithms.imitation:Imitation")
register_algorithm("madpo", "llm_dec_pomdp.algorithms.madpo:MADPO")
register_algorithm("iac", "llm_dec_pomdp.algorithms.actor_critic:IAC")
register_algorithm("maac", "llm_dec_pomdp.algorithms.actor_critic:MAAC")
register_algorithm("reward_model", "llm_dec_pomdp.algorithms.reward_model:RewardModel")
