"""Probes of the layers of confinement on this system: each one tries something that its layer must prevent.

`capabilities()` starts a process that forks one child per layer. The child applies only that layer and performs an
action that must then fail.
"""

from __future__ import annotations

import _thread
import contextlib
import fcntl
import functools
import json
import os
import platform
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import confine, spawn
from .jobs import SandboxError

PATIENCE = 20.0  # seconds that all probes together may take; they take 0.2


@dataclass(frozen=True, slots=True)
class Capabilities:
    """The layers of confinement of a system.

    Attributes:
        system: Operating system and machine type.
        layers: For each of `confine.LAYERS`, "" if it works, else the problem.
    """

    system: str
    layers: dict[str, str]

    @property
    def working(self) -> tuple[str, ...]:
        """The layers that work."""
        return tuple(name for name in confine.LAYERS if not self.layers[name])

    def without(self, *names: str) -> Capabilities:
        """Return the capabilities with these layers switched off."""
        return Capabilities(self.system, self.layers | dict.fromkeys(names, "switched off"))

    @property
    def missing(self) -> str:
        """A sentence if generated code could reach the network or files; else ""."""
        has = set(self.working)
        gaps = ["the network"] * (not has & {"namespaces", "seccomp"}) + ["files"] * ("landlock" not in has)
        if not gaps:
            return ""
        reasons = "; ".join(f"{name}: {reason}" for name, reason in self.layers.items() if reason)
        return (
            f"generated code cannot be kept from {' and '.join(gaps)} on this system ({reasons}). Use Linux 5.13 or "
            "newer with landlock and seccomp (Docker's default profile allows both), or accept the risk with "
            "SandboxPool(allow_weak=True) or the environment variable LLM_DEC_POMDP_ALLOW_WEAK=1"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for `versions.json`."""
        return {"system": self.system, "layers": {name: reason or "holds" for name, reason in self.layers.items()}}


@functools.cache
def capabilities() -> Capabilities:
    """Return the layers of this system, probed once per process.

    Raises:
        SandboxError: A probe did not answer. Whether its layer works is then unknown, and no code is run.
    """
    process = spawn.start("probes", {}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    try:
        output, _ = process.communicate(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
    layers: dict[str, str] = dict(json.loads(line) for line in output.decode().splitlines())
    for name in confine.LAYERS:
        if name not in layers:
            raise SandboxError(
                f"the probe of {name!r} did not answer within {PATIENCE:g} s: it is not known what confines generated "
                f"code. See that {sys.executable} starts quickly and that no process holds files of its library (lines "
                "with LEASE in /proc/locks), then try again"
            )
    return Capabilities(f"{platform.system()} {platform.machine()}", layers)


# --- the probe --------------------------------------------------------------------------------------------------------


def main(options: dict[str, Any]) -> None:
    """Probe every layer in a child process; for each child that answers, print name and problem as a line of JSON."""
    acts: dict[str, Callable[[], str]] = {
        "limits": _limits,
        "namespaces": _namespaces,
        "landlock": _landlock,
        "seccomp": _seccomp,
    }
    for name in confine.LAYERS:
        answer = _in_child(acts[name])
        if answer:
            sys.stdout.write(json.dumps([name, answer.strip()]) + "\n")
            sys.stdout.flush()


def _in_child(act: Callable[[], str]) -> str:
    """Return the problem that `act` finds in a child process; " " if it finds none, "" if the child did not answer."""
    reader, writer = os.pipe()
    if os.fork() == 0:
        try:
            answer = act()
        except BaseException as error:
            answer = f"{type(error).__name__}: {error}"
        os.write(writer, answer.encode() or b" ")
        os._exit(0)
    os.close(writer)
    answer = os.read(reader, 1 << 12).decode()
    os.close(reader)
    os.wait()
    return answer


def _limits() -> str:
    confine.limit(confine.address_space(confine.processes()) + (64 << 20), 10)
    try:
        bytearray(256 << 20)
    except MemoryError:
        return ""
    return "more memory than allowed could be taken"


def _namespaces() -> str:
    confine.leave_namespaces()
    folder = "/dev/shm" if Path("/dev/shm").is_dir() else tempfile.gettempdir()
    confine.show_only([], folder)
    confine.mount_memory(folder)
    if Path("/proc").exists():
        return "files could be seen"
    if (pid := confine.fork(namespaces=True)) == 0:
        os._exit(0 if os.getpid() == 1 else 1)
    if os.waitpid(pid, 0)[1]:
        return "other processes could be seen"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("127.0.0.1", 9))
        except OSError:
            return ""
    return "the network could be reached"


def _landlock() -> str:
    rules = confine.landlock_rules([os.__file__], [])
    confine.drop_privileges()
    confine.landlock(rules)
    with contextlib.suppress(PermissionError):
        list(Path("/").iterdir())
        return "files could be read"
    return ""


def _seccomp() -> str:
    program = confine.seccomp_program()
    listener = confine.listen_for_threads()
    confine.drop_privileges()
    confine.filter_calls(program)
    os.close(listener)
    attempts: dict[str, Callable[[], object]] = {
        "a connection could be made": lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM),
        "a signal could be sent": lambda: os.kill(os.getpid(), 0),
        "a signal about a file could be asked for": lambda: fcntl.fcntl(0, fcntl.F_SETOWN, os.getpid()),
        "a thread could be started unasked": lambda: _thread.start_new_thread(int, ()),
    }
    for achieved, attempt in attempts.items():
        with contextlib.suppress(PermissionError, RuntimeError):
            attempt()
            return achieved
    return ""
