"""Trackers, to which the numbers of a training run also go: TensorBoard, Weights & Biases, MLflow.

Event files for TensorBoard are written here, without its package: a record is a length, a checksum, a small protocol
buffer, and a checksum. `tensorboard --logdir RUN` reads them. The packages of the others are imported when asked for.
"""

from __future__ import annotations

import importlib
import importlib.util
import math
import struct
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol, cast

from ..config import ConfigError, flat
from ..registries import nearest
from ..visible import visible
from .loop import Step

_INSTALL = {"wandb": "wandb", "mlflow": "mlflow-skinny"}  # distributions by the name of their package
_TRACKERS = ("tensorboard", *_INSTALL)
Tracker = Literal["tensorboard", "wandb", "mlflow"]


def train_numbers(step: Step) -> dict[str, float]:
    """The numbers of a training step for trackers."""
    parts = {f"train/{name}": value for name, value in step.components.items()}
    metrics = {f"train/{name}": float(value) for name, value in step.metrics.items()}
    seconds = {"time/rollout": step.seconds_rollout, "time/update": step.seconds_update}
    return {"train/return_percent": step.return_percent, "train/return": step.mean_return} | parts | metrics | seconds


class Sink(Protocol):
    """Takes numbers of a step."""

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Note numbers, by name."""
        ...

    def close(self) -> None:
        """Write what is left."""
        ...


def check_trackers(names: Sequence[str]) -> list[Tracker]:
    """The names, once it is clear that they can be used; nothing is loaded.

    Raises:
        ConfigError: No such tracker, or its package is not installed.
    """
    for name in names:
        if name not in _TRACKERS:
            raise ConfigError(f"no tracker {name!r}; {nearest(name, _TRACKERS)}")
        if name in _INSTALL and importlib.util.find_spec(name) is None:
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
        """Begin a run in every tracker: event files go into its folder, the others get its title and configuration.

        Raises:
            ConfigError: See `check_trackers`.
        """
        check_trackers(names)
        makers = {
            "tensorboard": lambda: EventFile(folder),
            "wandb": lambda: _Wandb(folder, title, config),
            "mlflow": lambda: _MLflow(title, config),
        }
        return cls([makers[name]() for name in names])

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Note numbers, by name; those that are not finite are left out."""
        finite = {name: value for name, value in values.items() if math.isfinite(value)}
        for sink in self._sinks:
            sink.log(step, finite)

    def __enter__(self) -> Trackers:
        return self

    def __exit__(self, *exc: object) -> None:
        for sink in self._sinks:
            sink.close()


class _Wandb:
    """A run of Weights & Biases; its project is read from WANDB_PROJECT."""

    def __init__(self, folder: Path, title: str, config: Mapping[str, Any]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._run = importlib.import_module("wandb").init(name=title, dir=str(folder), config=dict(config))

    def log(self, step: int, values: Mapping[str, float]) -> None:
        self._run.log(dict(values), step=step)

    def close(self) -> None:
        self._run.finish()


class _MLflow:
    """A run of MLflow; its server is read from MLFLOW_TRACKING_URI.

    Raises:
        ConfigError: MLflow takes no runs there.
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
                f"MLflow takes no runs at {mlflow.get_tracking_uri()} ({error}); set MLFLOW_TRACKING_URI to the "
                "address of a server (`mlflow server`), or leave 'mlflow' out"
            ) from error
        for name, value in flat(config).items():
            self._client.log_param(self._run, name, value)

    def log(self, step: int, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            self._client.log_metric(self._run, name.replace(" ", "_"), value, step=step)

    def close(self) -> None:
        self._client.set_terminated(self._run)


# --- event files ------------------------------------------------------------------------------------------------------


class EventFile:
    """A TensorBoard event file of numbers, each readable as soon as `log` returns.

    A further file in the same folder continues the curves.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        number = len(list(folder.glob("events.out.tfevents.*")))
        self._file = (folder / f"events.out.tfevents.{int(time.time())}.{number}").open("wb")
        self._write(_double(1, time.time()) + _bytes(3, b"brain.Event:2"))

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Write one event with all of them."""
        summary = b"".join(
            _bytes(1, _bytes(1, visible(name).encode()) + _float(2, value)) for name, value in values.items()
        )
        self._write(_double(1, time.time()) + _varint(2 << 3) + _varint(step) + _bytes(5, summary))
        self._file.flush()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _write(self, event: bytes) -> None:
        """A TFRecord: length, masked checksum of the length, data, masked checksum of the data."""
        length = struct.pack("<Q", len(event))
        self._file.write(length + _checksum(length) + event + _checksum(event))


def _checksum(data: bytes) -> bytes:
    crc = crc32c(data)
    return struct.pack("<I", (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF)


def crc32c(data: bytes) -> int:
    """CRC-32C (Castagnoli)."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = (crc >> 8) ^ _TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def _table_entry(value: int) -> int:
    for _ in range(8):
        value = (value >> 1) ^ (0x82F63B78 if value & 1 else 0)
    return value


_TABLE = [_table_entry(byte) for byte in range(256)]


# Protocol buffers: a field is a tag (number and wire type) and a value.


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*encoded, value])


def _bytes(field: int, data: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(data)) + data


def _double(field: int, value: float) -> bytes:
    return _varint(field << 3 | 1) + struct.pack("<d", value)


def _float(field: int, value: float) -> bytes:
    return _varint(field << 3 | 5) + struct.pack("<f", value)
