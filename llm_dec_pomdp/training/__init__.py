"""Training: the loop, and its checkpoints."""

from .loop import Counters, DivergedError, Step, TrainerConfig, TrainingError, restore, train

__all__ = ["Counters", "DivergedError", "Step", "TrainerConfig", "TrainingError", "restore", "train"]
