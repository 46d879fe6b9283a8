"""Training: the loop, and its checkpoints."""

from .loop import Counters, DivergedError, Rollback, TrainerConfig, TrainingError, TrainingStep, restore, train

__all__ = [
    "Counters",
    "DivergedError",
    "Rollback",
    "TrainingStep",
    "TrainerConfig",
    "TrainingError",
    "restore",
    "train",
]
