"""Trackers that also receive the numbers of a training run: TensorBoard, Weights & Biases, MLflow, Trackio.

Their packages are imported on first use. `tensorboard --logdir RUN` reads the event files in the folders of cells.
"""

from __future__ import annotations

import importlib
import importlib.util
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol, cast

from ..config import ConfigError, flat
from ..printable import escape_controls
from ..registries import nearest
from .loop import TrainingStep

_INSTALL = {
    "tensorboard": "tensorboard",
    "wandb": "wandb",
    "mlflow": "mlflow-skinny",
    "trackio": "trackio",
}  # distributions by the name of their package
Tracker = Literal["tensorboard", "wandb", "mlflow", "trackio"]


def train_numbers(step: TrainingStep) -> dict[str, float]:
    """Return the numbers of a training step for trackers, by name."""
    parts = {f"train/{name}": value for name, value in step.components.items()}
    metrics = {f"train/{name}": float(value) for name, value in step.metrics.items()}
    seconds = {"time/rollout": step.seconds_rollout, "time/update": step.seconds_update}
    return {"train/return_percent": step.return_percent, "train/return": step.mean_return} | parts | metrics | seconds


class Sink(Protocol):
    """A tracker that receives the numbers of steps."""

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Record the numbers of a step, by name."""
        ...

    def close(self) -> None:
        """Write all pending numbers and end the run."""
        ...


def check_trackers(names: Sequence[str]) -> list[Tracker]:
    """Return the names if all of these trackers can be used; nothing is loaded.

    Raises:
        ConfigError: There is no such tracker, or its package is not installed.
    """
    for name in names:
        if name not in _INSTALL:
            raise ConfigError(f"no tracker {name!r}; {nearest(name, _INSTALL)}")
        if importlib.util.find_spec(name) is None:
            raise ConfigError(
                f"tracking with {name!r} needs its package: pip install {_INSTALL[name]}, or leave {name!r} out"
            )
    return cast("list[Tracker]", list(names))


class Trackers:
    """All trackers of one run; a context manager."""

    def __init__(self, sinks: Sequence[Sink]) -> None:
        self._sinks = sinks

    @classmethod
    def open(cls, names: Sequence[Tracker], folder: Path, title: str, config: Mapping[str, Any]) -> Trackers:
        """Begin a run in every tracker: event files go into the folder, other trackers receive title and configuration.

        Raises:
            ConfigError: See `check_trackers`.
        """
        check_trackers(names)
        makers = {
            "tensorboard": lambda: _TensorBoard(folder),
            "wandb": lambda: _Wandb(folder, title, config),
            "mlflow": lambda: _MLflow(title, config),
            "trackio": lambda: _Trackio(title, config),
        }
        return cls([makers[name]() for name in names])

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Record the numbers of a step, by name; those that are not finite are left out."""
        finite = {name: value for name, value in values.items() if math.isfinite(value)}
        for sink in self._sinks:
            sink.log(step, finite)

    def __enter__(self) -> Trackers:
        return self

    def __exit__(self, *exc: object) -> None:
        for sink in self._sinks:
            sink.close()


class _TensorBoard:
    """Event files in a folder, readable when `log` returns; further files in it continue the curves."""

    def __init__(self, folder: Path) -> None:
        self._writer = importlib.import_module("torch.utils.tensorboard").SummaryWriter(str(folder))

    def log(self, step: int, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            self._writer.add_scalar(escape_controls(name), value, step)
        self._writer.flush()

    def close(self) -> None:
        self._writer.close()


class _Wandb:
    """A run of Weights & Biases; its project is read from WANDB_PROJECT."""

    def __init__(self, folder: Path, title: str, config: Mapping[str, Any]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._run = importlib.import_module("wandb").init(name=title, dir=str(folder), config=dict(config))

    def log(self, step: int, values: Mapping[str, float]) -> None:
        self._run.log(dict(values), step=step)

    def close(self) -> None:
        self._run.finish()


class _Trackio:
    """A run of Trackio, whose data stay on this machine; view them with `trackio show`."""

    def __init__(self, title: str, config: Mapping[str, Any]) -> None:
        trackio: Any = importlib.import_module("trackio")
        self._run = trackio.init(project="llm-dec-pomdp", name=title, config=flat(config), resume="allow")

    def log(self, step: int, values: Mapping[str, float]) -> None:
        self._run.log(dict(values), step=step)

    def close(self) -> None:
        self._run.finish()


class _MLflow:
    """A run of MLflow; its server is read from MLFLOW_TRACKING_URI.

    Raises:
        ConfigError: MLflow cannot create a run at this address.
    """

    def __init__(self, title: str, config: Mapping[str, Any]) -> None:
        mlflow: Any = importlib.import_module("mlflow")
        try:
            self._client: Any = mlflow.MlflowClient()
            known = self._client.get_experiment_by_name("llm-dec-pomdp")
            experiment = known.experiment_id if known else self._client.create_experiment("llm-dec-pomdp")
            self._run: str = self._client.create_run(experiment, run_name=title).info.run_id
        except mlflow.exceptions.MlflowException as error:
            raise ConfigError(
                f"MLflow cannot create a run at {mlflow.get_tracking_uri()} ({error}); set MLFLOW_TRACKING_URI to the "
                "address of a server (`mlflow server`), or leave 'mlflow' out"
            ) from error
        for name, value in flat(config).items():
            self._client.log_param(self._run, name, value)

    def log(self, step: int, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            self._client.log_metric(self._run, name.replace(" ", "_"), value, step=step)

    def close(self) -> None:
        self._client.set_terminated(self._run)
