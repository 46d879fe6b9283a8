"""Workers: objects in other processes or on other machines, for policies in training and for the runs of a suite."""

from .base import Worker, WorkerLostError
from .transport import Executor, Transport, executors, run

__all__ = ["Executor", "Transport", "Worker", "WorkerLostError", "executors", "run"]
