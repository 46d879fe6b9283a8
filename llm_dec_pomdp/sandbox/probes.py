"""What this system can confine, found out by attempting what each layer forbids.

`capabilities()` starts a process that forks one child per layer; the child applies that layer alone and does something
that must fail then.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import platform
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import boot, confine


@dataclass(frozen=True, slots=True)
class Capabilities:
    """Layers of confinement by name.

    Attributes:
        system: Operating system and machine type.
        layers: For each of `confine.LAYERS` "" when it holds, else what is wrong.
    """

    system: str
    layers: dict[str, str]

    @property
    def working(self) -> tuple[str, ...]:
        """Layers that hold."""
        return tuple(name for name in confine.LAYERS if not self.layers[name])

    def without(self, *names: str) -> Capabilities:
        """As if these layers did not work here."""
        return Capabilities(self.system, self.layers | dict.fromkeys(names, "switched off"))

    @property
    def missing(self) -> str:
        """A sentence when generated code could reach the network or files; else ""."""
        has = set(self.working)
        gaps = ["the network"] * (not has & {"namespaces", "seccomp"}) + ["files"] * ("landlock" not in has)
        if not gaps:
            return ""
        reasons = "; ".join(f"{name}: {reason}" for name, reason in self.layers.items() if reason)
        return (
            f"generated code cannot be kept from {' and '.join(gaps)} on this system ({reasons}). Use Linux 5.13 or "
            "newer with landlock and seccomp (Docker's default profile allows both), or, where programs may do that, "
            "accept it: SandboxPool(allow_weak=True), or the environment variable LLM_DEC_POMDP_ALLOW_WEAK=1"
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain data for a manifest."""
        return {"system": self.system, "layers": {name: reason or "holds" for name, reason in self.layers.items()}}


@functools.cache
def capabilities() -> Capabilities:
    """What holds on this system; found out once per process."""
    process = boot.start("probes", {}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    try:
        output, _ = process.communicate(timeout=20)
        layers = json.loads(output)
    except (subprocess.TimeoutExpired, ValueError):
        process.kill()
        process.communicate()
        layers = dict.fromkeys([*confine.LAYERS], "the probe did not answer")
    return Capabilities(f"{platform.system()} {platform.machine()}", layers)


# --- the probe --------------------------------------------------------------------------------------------------------


def main(options: dict[str, Any]) -> None:
    """Probe every layer in a child of its own."""
    acts: dict[str, Callable[[], str]] = {
        "limits": _limits,
        "namespaces": _namespaces,
        "landlock": _landlock,
        "seccomp": _seccomp,
    }
    found = {name: _in_child(acts[name]) for name in confine.LAYERS}
    sys.stdout.write(json.dumps(found))


def _in_child(act: Callable[[], str]) -> str:
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
    return answer.strip() if answer else "the probe died"


def _limits() -> str:
    confine.limit(confine.address_space() + (64 << 20), 10)
    try:
        bytearray(256 << 20)
    except MemoryError:
        return ""
    return "more memory than allowed could be taken"


def _namespaces() -> str:
    confine.leave_namespaces()
    folder = "/dev/shm" if Path("/dev/shm").is_dir() else tempfile.gettempdir()
    confine.mount_memory(folder)
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
    confine.drop_privileges()
    confine.filter_calls(program)
    with contextlib.suppress(PermissionError):
        socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        return "a connection could be made"
    with contextlib.suppress(PermissionError):
        os.kill(os.getpid(), 0)
        return "a signal could be sent"
    return ""
