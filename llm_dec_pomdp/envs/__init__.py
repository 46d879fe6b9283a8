"""Environments: what a team of language models is told and what its texts are worth. Never imports torch."""

from .base import NotAskedToStepError, TextDecPOMDP, step_many
from .checks import CheckFailure, check_env
from .episode import EpisodeError, Outcome, Transition
from .facts import Facts
from .registration import make, register, registry, spec
from .task import Task
from .tasks import TaskError, TaskSource, load_tasks
from .text_task import TextTask

__all__ = [
    "CheckFailure",
    "EpisodeError",
    "Facts",
    "NotAskedToStepError",
    "Outcome",
    "Task",
    "TaskError",
    "TaskSource",
    "TextDecPOMDP",
    "TextTask",
    "Transition",
    "check_env",
    "load_tasks",
    "make",
    "register",
    "registry",
    "spec",
    "step_many",
]
