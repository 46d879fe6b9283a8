"""Training: the loop, and its checkpoints."""

from .loop import Counters, DivergedError, TrainerConfig, TrainingError, TrainingStep, restore, train

__all__ = ["Counters", "DivergedError", "TrainingStep", "TrainerConfig", "TrainingError", "restore", "train"]
