"""The process from which solution processes are forked: it has the standard library, and no data of this package.

It only receives orders to start and to end a child. Programs are sent over a socket of the judge, which this process
passes on. Orders and answers have a fixed size:

| order | meaning | answer |
|---|---|---|
| "s", limits, one descriptor | start a child on this socket | its process id, or 0 if the fork failed; 0 |
| "g" | the child has received its program | none |
| "w" | report the waiting time of the child | microseconds that it waited for a core; 0 |
| "k" | end the child and its children, empty its folder | microseconds of CPU time; 1 if it waited for a core |
"""

from __future__ import annotations

import array
import contextlib
import errno
import fcntl
import gc
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import NoReturn

from . import confine, guest, guest_objects

ORDER = struct.Struct(">cQI")  # order, bytes of memory, seconds of CPU
ANSWER = struct.Struct(">qq")
DEVICES = ("/dev/null", "/dev/zero", "/dev/urandom")
_LOOK = 0.05  # seconds between checks of a folder on the disk
_HIDDEN = "sandbox"  # name of the package that contains this module


class Zygote:
    """The main loop of the zygote process and its state."""

    def __init__(self, control: socket.socket, folder: str, site: list[str], layers: list[str]) -> None:
        self.control = control
        self.folder = folder
        self.layers = layers
        self.readable = [*confine.library(), *site]
        self.rules = -1
        self.threads = -1  # descriptor that is readable when the child requests a thread
        self.filter = b""
        self.dying = confine.dying_with_parent()
        self.steps: list[confine.Step] = []  # steps that confine the child
        self.proc = confine.processes()
        self.base = 0
        self.child = 0
        self.started = 0.0  # time at which the child received its program; 0 before

    def prepare(self) -> None:
        """Do the work that all children would otherwise repeat."""
        if "namespaces" in self.layers:
            confine.leave_namespaces()
            confine.show_only([*self.readable, *DEVICES], self.folder)
            confine.mount_memory(self.folder)
        confine.adopt_orphans()
        confine.share_arenas()
        if "seccomp" in self.layers:
            self.filter = confine.seccomp_program()
            self.threads = confine.listen_for_threads()
        self._make_rules()
        self.base = confine.address_space(self.proc)
        os.environ.clear()
        for name in [name for name in sys.modules if name.partition(".")[0] == _HIDDEN]:
            del sys.modules[name]
        gc.collect()
        gc.freeze()

    def _make_rules(self) -> None:
        if "landlock" in self.layers:
            if self.rules >= 0:
                os.close(self.rules)
            rules = confine.landlock_rules(self.readable, [self.folder, *DEVICES])
            self.rules = fcntl.fcntl(rules, fcntl.F_DUPFD_CLOEXEC, guest.SOCKET + 1)
            os.close(rules)
        self.steps = confine.steps(self.rules, self.filter)

    def run(self) -> None:
        """Prepare, and serve orders until the judge ends the connection. Then kill the child and empty its folder."""
        try:
            self.prepare()
            self.serve()
        except (BrokenPipeError, ConnectionResetError):  # the judge is gone
            pass
        finally:
            with contextlib.suppress(OSError):
                self.end()

    def serve(self) -> None:
        """Execute orders until the judge closes the connection."""
        self._answer(os.getpid())
        while True:
            self._look_after_child()
            data, ancillary, _, _ = self.control.recvmsg(ORDER.size, socket.CMSG_SPACE(4))
            if len(data) < ORDER.size:
                return
            order, memory, cpu = ORDER.unpack(data)
            if order == b"s":
                self._answer(self.start(descriptor_of(ancillary), memory, cpu))
            elif order == b"g":
                self.started = time.monotonic()
            elif order == b"w":
                self._answer(int(1e6 * waited(self.proc, self.child, time.monotonic() - self.started)))
            else:
                lived = time.monotonic() - self.started
                late = lived > 1.0 and starved(self.proc, self.child, lived)
                self._answer(self.end(), late)

    def _answer(self, number: int, flag: int = 0) -> None:
        self.control.sendall(ANSWER.pack(number, flag))

    def _look_after_child(self) -> None:
        """Wait for an order; meanwhile allow threads of the child, and end it if its folder overflows."""
        sources = [self.control, *([self.threads] if self.threads >= 0 else [])]
        watched = bool(self.started) and "namespaces" not in self.layers
        look = time.monotonic()
        while True:
            ready, _, _ = select.select(sources, [], [], _LOOK if watched else None)
            if self.control in ready:
                return
            if ready:
                confine.answer_thread(self.threads, self.proc, self.child)
            if watched and time.monotonic() >= look + _LOOK:
                look = time.monotonic()
                if _overfull(self.folder):
                    os.kill(self.child, signal.SIGKILL)
                    watched = False

    def start(self, descriptor: int, memory: int, cpu: int) -> int:
        """Fork a child that uses this socket."""
        try:
            self.child = confine.fork(namespaces="namespaces" in self.layers)
        except OSError:
            os.close(descriptor)
            return 0
        if self.child == 0:
            self._become_room(descriptor, memory, cpu)
        os.close(descriptor)
        return self.child

    def _become_room(self, descriptor: int, memory: int, cpu: int) -> NoReturn:
        try:
            os.setsid()
            confine.take(self.dying)
            os.umask(0o077)
            os.chdir(self.folder)
            os.dup2(descriptor, guest.SOCKET)
            if "limits" in self.layers:
                confine.limit(self.base + memory, cpu)
            confine.take(self.steps)
            os.closerange(guest.SOCKET + 1, 256)
            self.control.detach()  # closed above
            del self.control, self.folder, self.readable, self.filter, self.dying, self.steps
            guest.serve(guest_objects.serve)
        except BaseException as error:
            with contextlib.suppress(BaseException):
                guest.send(0, ("unconfined", guest.explain(error)))
        finally:
            os._exit(1)

    def end(self) -> int:
        """Kill the child with all its descendants, and remove its files."""
        if not self.child:
            return 0
        for kill in (os.killpg, os.kill):  # its session, and the child itself in case it has no session yet
            with contextlib.suppress(ProcessLookupError, PermissionError):
                kill(self.child, signal.SIGKILL)
        _, _, usage = os.wait4(self.child, 0)
        self.child, self.started = 0, 0.0
        end_orphans(self.proc)
        self._empty_folder()
        return int((usage.ru_utime + usage.ru_stime) * 1e6)

    def _empty_folder(self) -> None:
        with os.scandir(self.folder) as entries:
            if next(entries, None) is None:
                return
        if "namespaces" in self.layers:
            confine.unmount(self.folder)
            confine.mount_memory(self.folder)
            self._make_rules()
        else:
            empty(self.folder)


def descriptor_of(ancillary: list[tuple[int, int, bytes]]) -> int:
    """Return the descriptor that was sent with an order."""
    descriptors = array.array("i")
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            descriptors.frombytes(data[:4])
    return descriptors[0]


def end_orphans(proc: int) -> None:
    """Kill and reap the orphans of the child."""
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            for orphan in confine.read_process(proc, f"self/task/{os.getpid()}/children").split():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(orphan), signal.SIGKILL)


def empty(folder: str) -> None:
    """Remove the content of a folder, even if it is very deep, large or locked."""
    with os.scandir(folder) as entries:
        paths = [entry.path for entry in entries]
    for path in paths:
        with contextlib.suppress(OSError):
            Path(path).unlink()
    rest = [path for path in paths if os.path.lexists(path)]
    if rest:  # by tools without a limit of depth; locked folders are unlocked first
        for command in (["/bin/rm", "-rf", *rest], ["/bin/chmod", "-R", "u+rwx", *rest], ["/bin/rm", "-rf", *rest]):
            subprocess.run(command, stderr=subprocess.DEVNULL, check=False)
            if not any(os.path.lexists(path) for path in rest):
                break


def _overfull(folder: str) -> bool:
    """Return whether a folder has too many files or bytes, or is too deep to count them."""
    files = size = 0
    unreadable: list[OSError] = []
    for top, folders, names in os.walk(folder, onerror=unreadable.append):
        files += len(folders) + len(names)
        if files > confine.FOLDER_FILES:
            return True
        for name in names:
            with contextlib.suppress(OSError):
                size += os.lstat(f"{top}/{name}").st_blocks * 512
    too_deep = any(error.errno == errno.ENAMETOOLONG for error in unreadable)
    return too_deep or size > confine.FOLDER_SIZE


def starved(proc: int, pid: int, lived: float) -> bool:
    """Return whether the process spent more than half of its life waiting for a core."""
    return waited(proc, pid, lived) > lived / 2


def waited(proc: int, pid: int, lived: float) -> float:
    """Return the seconds that a process has waited for a core; estimated by the load if the kernel has no count."""
    try:
        _, nanoseconds, _ = (int(word) for word in confine.read_process(proc, f"{pid}/schedstat").split())
    except (OSError, ValueError):
        return lived if os.getloadavg()[0] > 4 * (os.cpu_count() or 1) else 0.0
    return nanoseconds / 1e9
