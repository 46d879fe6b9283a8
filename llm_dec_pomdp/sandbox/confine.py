"""Confinement of a process in layers, by system calls through ctypes, for Linux on x86-64 and arm64.

| layer | restricts |
|---|---|
| limits | memory, CPU, file size, descriptors, core dumps |
| namespaces | the network, other processes and files, System V memory, writing (except to 16 MB of memory) |
| landlock | reading and writing of files outside the standard library and the working folder |
| seccomp | all system calls that are not on an allow-list; more than MAX_THREADS threads |

Each function raises OSError if its layer does not work.
"""

from __future__ import annotations

import _thread
import contextlib
import ctypes
import errno
import fcntl
import functools
import os
import platform
import resource
import struct
import sys
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import NamedTuple

from . import seccomp

LAYERS = ("limits", "namespaces", "landlock", "seccomp")
FOLDER_SIZE = 16 << 20  # bytes that a program may keep in files
FOLDER_FILES = 1024
MAX_THREADS = 64  # threads of one program at a time
STACK = 2 << 20  # bytes of a thread's stack; by default 8 MB
# Folders of installed packages, and of this package, which has task sets with tests and solutions.
UNREADABLE = ("site-packages", "dist-packages", "llm_dec_pomdp")

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_SECCOMP, _PR_SET_CHILD_SUBREAPER, _PR_SET_NO_NEW_PRIVS = 1, 4, 22, 36, 38
_NEWNS, _NEWIPC, _NEWUSER, _NEWPID, _NEWNET = 0x20000, 0x08000000, 0x10000000, 0x20000000, 0x40000000
_SIGKILL, _SIGCHLD = 9, 17
_M_ARENA_MAX = -8
_BIND = 0x1000 | 0x4000  # including all mounts below
_CALLS = {"clone": (56, 220), "capset": (126, 91), "seccomp": (317, 277)}
_NEW_LISTENER = 1 << 3
_RECEIVE, _SEND, _REQUEST_SIZE, _ANSWER = 0xC0502100, 0xC0182101, 80, struct.Struct("QqiI")  # requests of a listener
_MOUNT_SETATTR, _LANDLOCK_CREATE, _LANDLOCK_ADD, _LANDLOCK_RESTRICT = 442, 444, 445, 446
_READ_FILE, _READ_DIR = 1 << 2, 1 << 3
_FILE_RIGHTS = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 5: (1 << 16) - 1}  # by the ABI that added them

_libc: ctypes.PyDLL | None = None


def _c() -> ctypes.PyDLL:
    global _libc
    if _libc is None:
        _libc = ctypes.PyDLL(None, use_errno=True)  # PyDLL keeps the GIL, as `fork` needs it
    return _libc


def _checked(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


class Step(NamedTuple):
    """A prepared system call with its arguments."""

    what: str
    call: Callable[[], int]


def _step(what: str, function: Callable[..., int], *arguments: int | bytes | None) -> Step:
    return Step(what, functools.partial(function, *(_c_value(argument) for argument in arguments)))


def _c_value(argument: int | bytes | None) -> ctypes.c_long | ctypes.c_char_p:
    return ctypes.c_long(argument) if isinstance(argument, int) else ctypes.c_char_p(argument)


def take(steps: Iterable[Step]) -> int:
    """Make the calls in order and return the result of the last one."""
    result = 0
    for what, call in steps:
        result = _checked(call(), what)
    return result


def _syscall(what: str, number: int, *arguments: int | bytes | None) -> int:
    return take([_step(what, _c().syscall, number, *arguments)])


def _numbered(name: str) -> int:
    return _CALLS[name][platform.machine().lower() in ("aarch64", "arm64")]


def _prctl(what: str, option: int, *arguments: int) -> Step:
    return _step(what, _c().prctl, option, *(*arguments, 0, 0, 0, 0)[:4])


def steps(rules: int, program: bytes) -> list[Step]:
    """Prepare the calls that confine a process before it runs generated code.

    They are prepared before the fork, because the first use of memory after a fork is slow.

    Args:
        rules: Descriptor of the landlock rules; -1: none.
        program: Filter of system calls; empty: none.
    """
    return [
        *_dropping(),
        *hiding(),
        *([_restricting(rules)] if rules >= 0 else []),
        *([_filtering(program)] if program else []),
    ]


# --- limits -----------------------------------------------------------------------------------------------------------


def limit(memory: int, cpu_seconds: int) -> None:
    """Set resource limits, soft = hard: the first process of a namespace ignores SIGXCPU."""
    for kind, value in (
        (resource.RLIMIT_AS, memory),
        (resource.RLIMIT_CPU, cpu_seconds),
        (resource.RLIMIT_FSIZE, 1 << 20),
        (resource.RLIMIT_NOFILE, 32),
        (resource.RLIMIT_CORE, 0),
    ):
        try:  # noqa: SIM105
            resource.setrlimit(kind, (value, value))
        except (ValueError, OSError):  # a lower limit is already set; macOS has no RLIMIT_AS
            pass


def share_arenas() -> None:
    """Reduce the address space of threads: one arena for all (an arena has 64 MB), and small stacks."""
    with contextlib.suppress(AttributeError):  # not glibc
        _c().mallopt(_M_ARENA_MAX, 1)
    _thread.stack_size(STACK)


def address_space(proc: int) -> int:
    """Return the bytes of address space of this process; 0 if unknown."""
    try:
        return int(read_process(proc, "self/statm").split()[0]) * resource.getpagesize()
    except OSError:
        return 0


# --- namespaces -------------------------------------------------------------------------------------------------------


def leave_namespaces() -> None:
    """Enter new user, mount, network and ipc namespaces, and make every mount read-only."""
    uid, gid = os.getuid(), os.getgid()
    _checked(_c().unshare(_NEWUSER | _NEWNS | _NEWNET | _NEWIPC), "unshare")
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1")
    Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1")
    _forbid_writing()


def _forbid_writing() -> None:
    attributes = struct.pack("QQQQ", 1 | 2, 0, 0, 0)  # read-only, nosuid
    _syscall("mount_setattr", _MOUNT_SETATTR, -100, b"/", 0x8000, attributes, len(attributes))


def show_only(paths: Iterable[str], folder: str) -> None:
    """Hide all files and folders except these; `folder` becomes their root.

    This also hides sizes and times of files (`stat`) and process ids (/proc), which are readable without permission.
    """
    mount_memory(folder)
    for path in dict.fromkeys([*paths, folder]):
        source, target = Path(path), Path(folder + path)
        if source.is_dir():
            target.mkdir(parents=True, exist_ok=True)
        elif source.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            target.touch()
        if source.exists() and path != folder:
            _checked(_c().mount(os.fsencode(path), os.fsencode(target), None, ctypes.c_ulong(_BIND), None), "bind")
    os.chroot(folder)
    os.chdir("/")
    _forbid_writing()


def processes() -> int:
    """Return a descriptor of /proc for `read_process`; -1 if there is none."""
    try:
        return os.open("/proc", os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return -1


def read_process(proc: int, name: str) -> str:
    """Return the text of a file in /proc, given by its descriptor."""
    with os.fdopen(os.open(name, os.O_RDONLY, dir_fd=proc), encoding="utf-8") as file:
        return file.read()


def mount_memory(folder: str) -> None:
    """Mount a small file system in memory that only this mount namespace sees."""
    options = f"size={FOLDER_SIZE},nr_inodes={FOLDER_FILES},mode=700".encode()
    _checked(_c().mount(b"tmpfs", os.fsencode(folder), b"tmpfs", ctypes.c_ulong(2 | 4), options), "mount")


def unmount(folder: str) -> None:
    """Remove a file system of `mount_memory` with its content."""
    _checked(_c().umount2(os.fsencode(folder), 2), "umount2")


def fork(*, namespaces: bool) -> int:
    """Fork; with `namespaces` the child is the first process of a pid namespace, which ends with the child.

    The caller has one thread, so no lock has to be reset. Python's own functions after a fork are left out, because
    they would take most of the time.
    """
    if sys.platform != "linux":
        return os.fork()
    flags = _SIGCHLD | (_NEWPID | _NEWIPC if namespaces else 0)
    pid = _c().syscall(ctypes.c_long(_numbered("clone")), ctypes.c_ulong(flags), *[ctypes.c_long(0)] * 4)
    return _checked(pid, "clone")


# --- landlock ---------------------------------------------------------------------------------------------------------


def landlock_rules(readable: Iterable[str], writable: Iterable[str]) -> int:
    """Return a descriptor of rules: read below `readable`, use files below `writable` in any way, nothing else.

    Folders of installed packages below a readable one can be listed but not read, because they may contain tests.
    """
    abi = _syscall("landlock", _LANDLOCK_CREATE, None, 0, 1)
    files = max(rights for since, rights in _FILE_RIGHTS.items() if since <= abi)
    network = 3 if abi >= 4 else 0  # bind and connect TCP
    scoped = 3 if abi >= 6 else 0  # abstract sockets, signals
    attributes = struct.pack("QQQ", files, network, scoped)[: 24 if abi >= 6 else 16 if abi >= 4 else 8]
    rules = _syscall("landlock", _LANDLOCK_CREATE, attributes, len(attributes), 0)
    device_files = files & ~(1 << 0)  # all rights except execution
    for path in readable:
        for entry in _but_packages(path):
            _landlock_allow(rules, entry, _READ_FILE | _READ_DIR)
        _landlock_allow(rules, path, _READ_DIR)
    for path in writable:
        _landlock_allow(rules, path, device_files)
    return rules


def _but_packages(path: str) -> list[str]:
    if not Path(path).is_dir():
        return [path]
    return [str(entry) for entry in Path(path).iterdir() if entry.name not in UNREADABLE]


def _landlock_allow(rules: int, path: str, rights: int) -> None:
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        if not Path(path).is_dir():
            rights &= 1 << 1 | 1 << 2 | 1 << 14  # a file can be written, read, truncated
        if rights:
            _syscall("landlock", _LANDLOCK_ADD, rules, 1, struct.pack("=Qi", rights, descriptor), 0)
    finally:
        os.close(descriptor)


def landlock(rules: int) -> None:
    """Apply the rules to this process, irrevocably."""
    take([_restricting(rules)])


def _restricting(rules: int) -> Step:
    return _step("landlock", _c().syscall, _LANDLOCK_RESTRICT, rules, 0)


# --- seccomp and privileges -------------------------------------------------------------------------------------------


def _filter(program: bytes) -> tuple[ctypes.Array[ctypes.c_char], int]:
    """Return the filter in the kernel's form, and its address, which is valid while the filter is referenced."""
    whole = ctypes.create_string_buffer(16 + len(program))
    address = ctypes.addressof(whole)
    struct.pack_into("HxxxxxxP", whole, 0, len(program) // 8, address + 16)
    whole[16:] = program  # type: ignore[index]
    return whole, address


def filter_calls(program: bytes) -> None:
    """Install a filter of system calls."""
    take([_filtering(program)])


def _filtering(program: bytes) -> Step:
    whole, address = _filter(program)
    what, call = _prctl("seccomp", _PR_SET_SECCOMP, 2, address)

    def install() -> int:
        _ = whole  # referenced while its address is needed
        return call()

    return Step(what, install)


def listen_for_threads() -> int:
    """Return a descriptor that is readable when a later child requests a thread; see `answer_thread`.

    After it is closed, no thread can be started. The caller itself must not start threads.
    """
    take([_prctl("no_new_privs", _PR_SET_NO_NEW_PRIVS, 1)])
    whole, address = _filter(seccomp.asking_for_threads())
    listener = _syscall("seccomp", _numbered("seccomp"), 1, _NEW_LISTENER, address)
    del whole
    return listener


def answer_thread(listener: int, proc: int, process: int) -> None:
    """Allow a requested thread if the process has fewer than MAX_THREADS; else refuse it with EAGAIN."""
    request = bytearray(_REQUEST_SIZE)
    with contextlib.suppress(FileNotFoundError):  # the process has ended
        fcntl.ioctl(listener, _RECEIVE, request)
        number = struct.unpack_from("Q", request)[0]
        try:
            status = read_process(proc, f"{process}/status")
            room = int(status.partition("\nThreads:")[2].split()[0]) < MAX_THREADS
        except (OSError, IndexError):
            room = False
        fcntl.ioctl(listener, _SEND, _ANSWER.pack(number, 0, 0 if room else -errno.EAGAIN, int(room)))


def seccomp_program(*, judge: bool = False) -> bytes:
    """Return the filter of system calls for this machine."""
    if not seccomp.supported():
        raise OSError(f"system call numbers of {platform.machine()} are not known")
    return seccomp.program(judge=judge)


def drop_privileges() -> None:
    """Drop all capabilities irrevocably; do nothing on systems other than Linux."""
    take(_dropping())


def _dropping() -> list[Step]:
    if sys.platform != "linux":
        return []
    header, nothing = struct.pack("Ii", 0x20080522, 0), bytes(24)
    capabilities = _step("capset", _c().syscall, _numbered("capset"), header, nothing)
    return [capabilities, _prctl("no_new_privs", _PR_SET_NO_NEW_PRIVS, 1)]


def hiding() -> list[Step]:
    """Return the steps that prevent unprivileged processes from tracing this one or reading its memory."""
    return [_prctl("dumpable", _PR_SET_DUMPABLE, 0)] if sys.platform == "linux" else []


def dying_with_parent() -> list[Step]:
    """Return the steps that end this process when the thread that started it ends."""
    return [_prctl("pdeathsig", _PR_SET_PDEATHSIG, _SIGKILL)] if sys.platform == "linux" else []


def adopt_orphans() -> None:
    """Become the parent of orphaned descendants."""
    if sys.platform == "linux":
        take([_prctl("subreaper", _PR_SET_CHILD_SUBREAPER, 1)])


# --- the judge --------------------------------------------------------------------------------------------------------


def library() -> list[str]:
    """Return the folders of the standard library."""
    folders = {str(Path(os.__file__).parent), *(path for path in sys.path if Path(path).exists())}
    return sorted({*folders, *(str(Path(path).resolve()) for path in folders)})


def confine_judge(layers: Collection[str], readable: Iterable[str]) -> None:
    """Confine the calling process, which runs tests: no network, no new processes, read access to `readable` only."""
    if "namespaces" in layers:
        leave_namespaces()
    rules = landlock_rules(readable, []) if "landlock" in layers else -1
    program = seccomp_program(judge=True) if "seccomp" in layers else b""
    drop_privileges()
    if rules >= 0:
        landlock(rules)
        os.close(rules)
    if program:
        filter_calls(program)
