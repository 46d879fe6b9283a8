"""An allow-list of system calls as a BPF program, for x86-64 and arm64; all other calls fail.

Reference solutions of HumanEval, CoopHumanEval and MBPP make seven calls after the fork: read, write, mmap, munmap,
mremap, brk and exit_group. The standard library makes the other calls of the list, for files in the own folder,
imports, waiting, timers, event loops and threads. Calls with dangerous modes are allowed with harmless arguments only:
no leases, no signals about files, no new process, no addresses to send to, no limits to raise.

Refused calls fail with EPERM. Numbers from 424 on are the same on all machines. C libraries try these calls first and
have a fallback (`clone3`, whose flags are in memory, falls back to `clone`): they fail with ENOSYS.
"""

from __future__ import annotations

import errno
import platform
import struct
from typing import NamedTuple

_ALLOW, _ERRNO, _ASK, _KILL = 0x7FFF0000, 0x00050000, 0x7FC00000, 0x80000000
_LOAD, _EQUAL, _AT_LEAST, _AND, _RETURN = 0x20, 0x15, 0x35, 0x54, 0x06
_NUMBER, _ARCHITECTURE = 0, 4  # offsets in struct seccomp_data
_NEW_CALLS = 424

# name -> numbers on (x86-64, arm64); None if there is no such call
_Numbers = tuple["int | None", "int | None"]
_PLAIN: dict[str, _Numbers] = {
    # memory; a program can run machine code anyway (ctypes), so executable pages are no additional risk
    "brk": (12, 214), "mmap": (9, 222), "munmap": (11, 215), "mremap": (25, 216), "mprotect": (10, 226),
    "madvise": (28, 233),
    # open files
    "read": (0, 63), "write": (1, 64), "readv": (19, 65), "writev": (20, 66), "pread64": (17, 67),
    "pwrite64": (18, 68), "lseek": (8, 62), "close": (3, 57), "close_range": (436, 436), "fstat": (5, 80),
    "ftruncate": (77, 46), "fsync": (74, 82), "fdatasync": (75, 83), "sendfile": (40, 71), "getdents64": (217, 61),
    "dup": (32, 23), "dup2": (33, None), "dup3": (292, 24), "pipe": (22, None), "pipe2": (293, 59),
    # files by name; landlock restricts them
    "open": (2, None), "openat": (257, 56), "stat": (4, None), "lstat": (6, None), "newfstatat": (262, 79),
    "statx": (332, 291), "access": (21, None), "faccessat": (269, 48), "faccessat2": (439, 439),
    "readlink": (89, None), "readlinkat": (267, 78), "getcwd": (79, 17), "chdir": (80, 49), "fchdir": (81, 50),
    "mkdir": (83, None), "mkdirat": (258, 34), "rmdir": (84, None), "unlink": (87, None), "unlinkat": (263, 35),
    "rename": (82, None), "renameat": (264, 38), "renameat2": (316, 276), "truncate": (76, 45), "umask": (95, 166),
    # waiting and event loops
    "poll": (7, None), "ppoll": (271, 73), "select": (23, None), "pselect6": (270, 72), "epoll_create1": (291, 20),
    "epoll_ctl": (233, 21), "epoll_wait": (232, None), "epoll_pwait": (281, 22), "eventfd2": (290, 19),
    "recvfrom": (45, 207), "shutdown": (48, 210), "getsockname": (51, 204), "getpeername": (52, 205),
    "getsockopt": (55, 209),
    # time, timers and signals from them
    "nanosleep": (35, 101), "clock_nanosleep": (230, 115), "clock_gettime": (228, 113), "clock_getres": (229, 114),
    "gettimeofday": (96, 169), "time": (201, None), "times": (100, 153), "alarm": (37, None), "getitimer": (36, 102),
    "setitimer": (38, 103), "pause": (34, None), "rt_sigaction": (13, 134), "rt_sigprocmask": (14, 135),
    "rt_sigreturn": (15, 139), "rt_sigsuspend": (130, 133), "rt_sigtimedwait": (128, 137), "sigaltstack": (131, 132),
    "restart_syscall": (219, 128),
    # threads and exit
    "futex": (202, 98), "set_robust_list": (273, 99), "rseq": (334, 293), "sched_yield": (24, 124),
    "sched_getaffinity": (204, 123), "getcpu": (309, 168), "exit": (60, 93), "exit_group": (231, 94),
    # ids
    "getpid": (39, 172), "getppid": (110, 173), "gettid": (186, 178), "getuid": (102, 174), "geteuid": (107, 175),
    "getgid": (104, 176), "getegid": (108, 177), "getpgrp": (111, None), "getpgid": (121, 155), "getsid": (124, 156),
    "getrlimit": (97, 163), "getrusage": (98, 165), "uname": (63, 160), "sysinfo": (99, 179), "getrandom": (318, 278),
}  # fmt: skip

_JUDGE: dict[str, _Numbers] = {
    "sendmsg": (46, 211),  # hands over a descriptor; stream sockets, the only ones there are, take no address
    "wait4": (61, 260),
    "waitid": (247, 95),
}


class _Test(NamedTuple):
    """A test that some bits of one half of an argument have a value."""

    argument: int
    value: int
    mask: int = 0xFFFFFFFF
    upper: bool = False

    @property
    def offset(self) -> int:
        """Byte offset in struct seccomp_data of the half of the argument under test.

        A half has 32 bits. The upper half comes second, because both machine types are little-endian.
        """
        return 16 + 8 * self.argument + 4 * self.upper


_Mode = tuple[_Test, ...]  # all tests must hold


def _null(argument: int) -> _Mode:
    return _Test(argument, 0), _Test(argument, 0, upper=True)


_THREAD_FLAGS = 0x3D0F00  # flags of pthread_create; musl adds an obsolete one
_THREAD: _Mode = (_Test(0, _THREAD_FLAGS, 0xFFFFFFFF & ~0x400000),)
_DUPLICATE, _GET_FLAGS, _SET_FLAGS, _GET_LOCK, _ASYNC = (0, 1030), (1, 2, 3), 4, 5, 0x2000
# A lock on a file that two programs can open would be a channel between them: these calls succeed without effect.
_SEEMING: dict[str, tuple[_Mode, ...]] = {"fcntl": ((_Test(1, 6),), (_Test(1, 7),))}  # F_SETLK, F_SETLKW
_TERMINAL = (0x5401, 0x802C542A, 0x5413)  # TCGETS and TCGETS2, which `isatty` uses; TIOCGWINSZ
_DESCRIPTOR = (0x5450, 0x5451, 0x5421, 0x541B)  # FIONCLEX, FIOCLEX, FIONBIO, FIONREAD

# name -> numbers, and the modes that are allowed
_GUARDED: dict[str, tuple[_Numbers, tuple[_Mode, ...]]] = {
    "fcntl": (
        (72, 25),
        (
            *((_Test(1, command),) for command in (*_DUPLICATE, *_GET_FLAGS, _GET_LOCK)),
            (_Test(1, _SET_FLAGS), _Test(2, 0, _ASYNC)),
        ),
    ),
    "ioctl": ((16, 29), tuple((_Test(1, request),) for request in (*_TERMINAL, *_DESCRIPTOR))),
    "clone": ((56, 220), (_THREAD,)),
    "prctl": ((157, 167), ((_Test(0, 15),), (_Test(0, 16),))),  # the name of a thread
    "prlimit64": ((302, 261), ((_Test(0, 0), *_null(2)),)),  # read own limits
    "socketpair": ((53, 199), ((_Test(0, 1), _Test(1, 1, 0xF)),)),  # AF_UNIX, SOCK_STREAM
    "sendto": ((44, 206), (_null(4),)),  # to the other end only
}
_OF_THE_JUDGE: dict[str, tuple[_Mode, ...]] = {
    "clone": (),
    "prlimit64": (*_GUARDED["prlimit64"][1], (_Test(0, 0), _Test(1, 0))),  # its own limit of CPU time
}
_COLUMNS = {"x86_64": (0, 0xC000003E), "amd64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7), "arm64": (1, 0xC00000B7)}

_Line = tuple[int, int, int, int]  # struct sock_filter


def supported() -> bool:
    """Return whether the system call numbers of this machine are known."""
    return platform.machine().lower() in _COLUMNS


def allowed(machine: str, *, judge: bool = False) -> dict[str, int]:
    """Return the calls that are allowed with any arguments, by name, for a machine type ("x86_64", "aarch64")."""
    column, _ = _COLUMNS[machine.lower()]
    calls = _PLAIN | (_JUDGE if judge else {})
    return {name: number for name, pair in calls.items() if (number := pair[column]) is not None}


def program(machine: str | None = None, *, judge: bool = False) -> bytes:
    """Return the filter as an array of struct sock_filter, for the process of a program or for the judge.

    The judge may send descriptors and wait for its child, but cannot start threads.
    """
    machine = (machine or platform.machine()).lower()
    column, _ = _COLUMNS[machine]
    lines = _head(machine)
    for name, (pair, modes) in _GUARDED.items():
        number = pair[column]
        assert number is not None
        lines += _guarded(number, _OF_THE_JUDGE.get(name, modes) if judge else modes, seeming=_SEEMING.get(name, ()))
    plain = sorted(allowed(machine, judge=judge).values())
    lines += [(_EQUAL, len(plain) - place + 2, 0, number) for place, number in enumerate(plain)]
    lines += [(_AT_LEAST, 0, 1, _NEW_CALLS), _failing(errno.ENOSYS), _failing(errno.EPERM), (_RETURN, 0, 0, _ALLOW)]
    return _packed(lines)


def asking_for_threads(machine: str | None = None) -> bytes:
    """Return a filter that requests permission for every new thread from the owner of its listener."""
    machine = (machine or platform.machine()).lower()
    number = _GUARDED["clone"][0][_COLUMNS[machine][0]]
    assert number is not None
    ask = [*_guarded(number, (_THREAD,), (_RETURN, 0, 0, _ASK), (_RETURN, 0, 0, _ALLOW)), (_RETURN, 0, 0, _ALLOW)]
    return _packed(_head(machine) + ask)


def _head(machine: str) -> list[_Line]:
    """Return the start of a filter, which kills on calls of another architecture or of x32."""
    return [
        (_LOAD, 0, 0, _ARCHITECTURE), (_EQUAL, 1, 0, _COLUMNS[machine][1]), (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER),
    ]  # fmt: skip


def _guarded(
    number: int,
    modes: tuple[_Mode, ...],
    then: _Line = (_RETURN, 0, 0, _ALLOW),
    otherwise: _Line = (_RETURN, 0, 0, _ERRNO | errno.EPERM),
    seeming: tuple[_Mode, ...] = (),
) -> list[_Line]:
    """Return the lines for one call: `then` if a mode holds, success if a mode of `seeming` holds, else `otherwise`."""
    body: list[_Line] = []
    for mode, answer in [*((mode, then) for mode in modes), *((mode, _failing(0)) for mode in seeming)]:
        after = 3 * len(mode) + 1
        for place, test in enumerate(mode):
            body += [(_LOAD, 0, 0, test.offset), (_AND, 0, 0, test.mask)]
            body += [(_EQUAL, 0, after - 3 * (place + 1), test.value)]
        body += [answer]
    return [(_EQUAL, 0, len(body) + 1, number), *body, otherwise]


def _failing(number: int) -> _Line:
    return _RETURN, 0, 0, _ERRNO | number


def _packed(lines: list[_Line]) -> bytes:
    return b"".join(struct.pack("HBBI", *line) for line in lines)
