"""Where the policies of a team live, generate and learn: one file and one registry line each."""

from .base import Executor, WorkerLostError, executors, run

__all__ = ["Executor", "WorkerLostError", "executors", "run"]
