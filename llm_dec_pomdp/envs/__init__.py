"""Environments: Dec-POMDPs whose observations and actions are texts. This package never imports torch.

The names below are the public API for environments of other packages and of `llm_dec_pomdp.contrib`.
"""

from .base import NotAskedToStepError, Script, TextDecPOMDP, step_many
from .checks.base import CheckFailure
from .checks.check import check_env
from .episode import EpisodeError, Outcome, Transition
from .facts import Facts
from .registration import make, register, registry, spec
from .task import Task, TaskOptions, check_int
from .tasks import Row, TaskError, Tasks, TaskSource, is_sample, json_lines, load_tasks
from .text_task import TextOptions, TextState, TextTask

__all__ = [
    "CheckFailure",
    "EpisodeError",
    "Facts",
    "NotAskedToStepError",
    "Outcome",
    "Row",
    "Script",
    "Task",
    "TaskError",
    "TaskOptions",
    "TaskSource",
    "Tasks",
    "TextDecPOMDP",
    "TextOptions",
    "TextState",
    "TextTask",
    "Transition",
    "check_env",
    "check_int",
    "is_sample",
    "json_lines",
    "load_tasks",
    "make",
    "register",
    "registry",
    "spec",
    "step_many",
]
