"""Environments: what a team of language models is told and what its texts are worth. Never imports torch."""

from .base import NotAskedToStepError, Outcome, TextDecPOMDP, step_many
from .check import CheckFailure, check_env
from .registration import make, register, registry, spec
from .tasks import TaskError, TaskSource, load_tasks
from .text_task import TextTask

__all__ = [
    "CheckFailure",
    "NotAskedToStepError",
    "Outcome",
    "TaskError",
    "TaskSource",
    "TextDecPOMDP",
    "TextTask",
    "check_env",
    "load_tasks",
    "make",
    "register",
    "registry",
    "spec",
    "step_many",
]
