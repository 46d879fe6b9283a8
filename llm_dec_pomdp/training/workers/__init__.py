"""Workers: objects in other processes or on other machines, for the policies of a training and the cells of a suite."""

from .base import Worker, WorkerLostError
from .transport import Executor, Transport, executors, run

__all__ = ["Executor", "Transport", "Worker", "WorkerLostError", "executors", "run"]
