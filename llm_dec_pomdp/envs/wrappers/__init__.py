"""Wrappers: communication protocols, numeric spaces, vectorization, and options such as tools and stopping."""

from .choices import Choices, TurnChoices
from .discrete import DiscreteMenu, TokenIds
from .injection import Injection
from .learned_reward import LearnedReward
from .numeric import ByteObservation, FixedRoster, NumericWrapper
from .protocols import (
    PROTOCOLS,
    Centralized,
    Discussion,
    GymnasiumView,
    ProtocolWrapper,
    Sequential,
    register_protocol,
    with_protocol,
)
from .stopping import Stopping
from .tools import WithTools
from .vector import VecEnv, make_vec

__all__ = [
    "PROTOCOLS",
    "ByteObservation",
    "Centralized",
    "Choices",
    "DiscreteMenu",
    "Discussion",
    "FixedRoster",
    "GymnasiumView",
    "Injection",
    "LearnedReward",
    "NumericWrapper",
    "ProtocolWrapper",
    "Sequential",
    "Stopping",
    "TokenIds",
    "TurnChoices",
    "VecEnv",
    "WithTools",
    "make_vec",
    "register_protocol",
    "with_protocol",
]
