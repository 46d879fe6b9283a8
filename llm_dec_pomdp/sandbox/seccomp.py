"""A deny-list of system calls as a BPF program: what is on it fails with EPERM, on x86-64 and arm64.

Forking is denied, threads are not; `clone3` is answered with ENOSYS, so that the C library falls back to `clone`, whose
flags can be looked at.
"""

from __future__ import annotations

import errno
import platform
import struct

_THREAD = 0x00010000  # CLONE_THREAD
_ALLOW, _ERRNO, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _ARCH, _FLAGS = 0, 4, 16  # offsets in struct seccomp_data; the first argument's low half
_X32 = 0x40000000

# name -> numbers on (x86-64, arm64); None where there is no such call
_CALLS: dict[str, tuple[int | None, int | None]] = {
    # processes
    "fork": (57, None), "vfork": (58, None), "execve": (59, 221), "execveat": (322, 281),
    "prctl": (157, 167), "kill": (62, 129), "tkill": (200, 130), "tgkill": (234, 131), "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240), "pidfd_open": (434, 434), "pidfd_send_signal": (424, 424),
    "pidfd_getfd": (438, 438), "ptrace": (101, 117), "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271), "process_madvise": (440, 440), "kcmp": (312, 272), "prlimit64": (302, 261),
    "setpgid": (109, 154), "setpriority": (141, 140), "ioprio_set": (251, 30), "sched_setaffinity": (203, 122),
    "sched_setscheduler": (144, 119), "sched_setparam": (142, 118), "sched_setattr": (314, 274),
    # connections
    "socket": (41, 198), "connect": (42, 203), "bind": (49, 200), "listen": (50, 201), "accept": (43, 202),
    "accept4": (288, 242), "sendto": (44, 206), "sendmsg": (46, 211), "sendmmsg": (307, 269),
    # namespaces and mounts
    "unshare": (272, 97), "setns": (308, 268), "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41),
    "chroot": (161, 51), "move_mount": (429, 429), "open_tree": (428, 428), "fsopen": (430, 430),
    "fsconfig": (431, 431), "fsmount": (432, 432), "fspick": (433, 433), "mount_setattr": (442, 442),
    "open_tree_attr": (467, 467), "name_to_handle_at": (303, 264), "open_by_handle_at": (304, 265),
    # what landlock does not look at
    "chmod": (90, None), "fchmod": (91, 52), "fchmodat": (268, 53), "fchmodat2": (452, 452), "chown": (92, None),
    "fchown": (93, 55), "lchown": (94, None), "fchownat": (260, 54), "utime": (132, None), "utimes": (235, None),
    "futimesat": (261, None), "utimensat": (280, 88), "setxattr": (188, 5), "lsetxattr": (189, 6),
    "fsetxattr": (190, 7), "setxattrat": (463, 463), "removexattr": (197, 14), "lremovexattr": (198, 15),
    "fremovexattr": (199, 16), "removexattrat": (466, 466), "file_setattr": (469, 469),
    # memory that outlives a process or escapes its limits
    "shmget": (29, 194), "shmat": (30, 196), "shmctl": (31, 195), "semget": (64, 190), "semop": (65, 193),
    "semtimedop": (220, 192), "semctl": (66, 191), "msgget": (68, 186), "msgsnd": (69, 189), "msgrcv": (70, 188),
    "msgctl": (71, 187), "mq_open": (240, 180), "mq_unlink": (241, 181), "memfd_create": (319, 279),
    "memfd_secret": (447, 447), "add_key": (248, 217), "request_key": (249, 218), "keyctl": (250, 219),
    # the kernel itself
    "io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "io_uring_register": (427, 427), "bpf": (321, 280),
    "perf_event_open": (298, 241), "userfaultfd": (323, 282), "fanotify_init": (300, 262), "init_module": (175, 105),
    "finit_module": (313, 273), "delete_module": (176, 106), "kexec_load": (246, 104),
    "kexec_file_load": (320, 294), "reboot": (169, 142), "swapon": (167, 224), "swapoff": (168, 225),
    "sethostname": (170, 161), "setdomainname": (171, 162), "settimeofday": (164, 170), "clock_settime": (227, 112),
    "adjtimex": (159, 171), "clock_adjtime": (305, 266), "acct": (163, 89), "quotactl": (179, 60),
    "quotactl_fd": (443, 443), "syslog": (103, 116), "personality": (135, 92), "vhangup": (153, 58),
    "iopl": (172, None), "ioperm": (173, None), "modify_ldt": (154, None), "lookup_dcookie": (212, 18),
    "uselib": (134, None), "_sysctl": (156, None), "sysfs": (139, None), "seccomp": (317, 277),
}  # fmt: skip
_CLONE, _CLONE3 = (56, 220), 435
_ARCHITECTURES = {"x86_64": (0, 0xC000003E), "amd64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7), "arm64": (1, 0xC00000B7)}  # fmt: skip # noqa: E501


def supported() -> bool:
    """This machine's system call numbers are known."""
    return platform.machine().lower() in _ARCHITECTURES


def numbers(machine: str) -> dict[str, int]:
    """The denied calls of a machine type ("x86_64", "aarch64") by name."""
    column, _ = _ARCHITECTURES[machine.lower()]
    return {name: pair[column] for name, pair in _CALLS.items() if pair[column] is not None}  # type: ignore[misc]


def program(machine: str | None = None) -> bytes:
    """The filter as an array of struct sock_filter."""
    machine = (machine or platform.machine()).lower()
    column, architecture = _ARCHITECTURES[machine]
    denied = sorted(numbers(machine).values())
    deny = _ERRNO | errno.EPERM
    head = [(_LOAD, 0, 0, _ARCH), (_EQUAL, 1, 0, architecture), (_RETURN, 0, 0, _KILL), (_LOAD, 0, 0, _NUMBER)]
    if column == 0:
        head += [(_AT_LEAST, 0, 1, _X32), (_RETURN, 0, 0, deny)]
    head += [(_EQUAL, 0, 1, _CLONE3), (_RETURN, 0, 0, _ERRNO | errno.ENOSYS)]
    head += [(_EQUAL, 0, 4, _CLONE[column]), (_LOAD, 0, 0, _FLAGS), (_ANY_BIT, 1, 0, _THREAD)]
    head += [(_RETURN, 0, 0, deny), (_RETURN, 0, 0, _ALLOW)]
    body = [(_EQUAL, len(denied) - place, 0, number) for place, number in enumerate(denied)]
    tail = [(_RETURN, 0, 0, _ALLOW), (_RETURN, 0, 0, deny)]
    return b"".join(struct.pack("HBBI", *line) for line in head + body + tail)
