"""Rollouts: ways to sample episodes of tasks with a policy, one class per file."""

from .base import Rollout
from .calls import Calls
from .counterfactual import Counterfactual
from .crossed import Crossed
from .demonstrations import Demonstrations
from .messages import Messages
from .preferences import Preferences
from .replay import replay
from .trajectories import Trajectories, independent
from .tree import Tree

__all__ = [
    "Calls",
    "Counterfactual",
    "Crossed",
    "Demonstrations",
    "Messages",
    "Preferences",
    "Rollout",
    "Trajectories",
    "Tree",
    "independent",
    "replay",
]
