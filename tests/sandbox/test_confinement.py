"""What confines a program: the filter of system calls by a small BPF machine, and the probes of `capabilities`."""

from __future__ import annotations

import errno
import json
import struct
import subprocess

import pytest

from llm_dec_pomdp.sandbox import (
    Capabilities,
    Job,
    SandboxError,
    SandboxPool,
    capabilities,
    confine,
    probes,
    seccomp,
    spawn,
)

ALLOW, KILL, ASK = 0x7FFF0000, 0x80000000, 0x7FC00000
REFUSED, UNKNOWN, SEEMS = 0x50000 | errno.EPERM, 0x50000 | errno.ENOSYS, 0x50000
ARCHITECTURE = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
THREAD = 0x3D0F00  # the flags of pthread_create
CLONE = {"x86_64": 56, "aarch64": 220}
HIGH = 1 << 32


def answer(
    machine: str,
    number: int,
    *arguments: int,
    architecture: int | None = None,
    judge: bool = False,
    program: bytes | None = None,
) -> int:
    """What the filter of a machine says to a system call: a classic BPF machine with the five codes that it uses."""
    data = struct.pack("<IIQ6Q", number, architecture or ARCHITECTURE[machine], 0, *(*arguments, *[0] * 6)[:6])
    program = program or seccomp.program(machine, judge=judge)
    lines = [struct.unpack_from("HBBI", program, at) for at in range(0, len(program), 8)]
    accumulator = place = 0
    while True:
        code, yes, no, value = lines[place]
        place += 1
        if code == 0x06:
            return value
        elif code == 0x20:
            accumulator = struct.unpack_from("<I", data, value)[0]
        elif code == 0x54:
            accumulator &= value
        else:
            place += yes if {0x15: accumulator == value, 0x35: accumulator >= value}[code] else no


machines = pytest.mark.parametrize("machine", ARCHITECTURE)
GUARDED = {"fcntl": (72, 25), "ioctl": (16, 29), "clone": (56, 220), "prctl": (157, 167), "prlimit64": (302, 261)} | {
    "socketpair": (53, 199), "sendto": (44, 206)
}  # fmt: skip


def number_of(machine: str, name: str) -> int:
    return GUARDED[name][machine == "aarch64"]


@machines
def test_what_is_not_on_the_list_is_refused(machine: str) -> None:
    allowed = set(seccomp.allowed(machine).values())
    assert len(allowed) < 110
    others = set(range(600)) - allowed - {number_of(machine, name) for name in GUARDED}
    assert {number: answer(machine, number) for number in others} == {
        number: UNKNOWN if number >= 424 else REFUSED for number in others
    }
    assert {answer(machine, number) for number in allowed} == {ALLOW}


DENIED = {  # (x86-64, arm64)
    "execve": (59, 221), "kill": (62, 129), "tgkill": (234, 131), "ptrace": (101, 117), "socket": (41, 198),
    "connect": (42, 203), "sendmsg": (46, 211), "setsockopt": (54, 208), "unshare": (272, 97), "mount": (165, 40),
    "fchmod": (91, 52), "fchown": (93, 55), "shmget": (29, 194), "memfd_create": (319, 279), "keyctl": (250, 219),
    "io_setup": (206, 0), "perf_event_open": (298, 241), "userfaultfd": (323, 282), "bpf": (321, 280),
    "inotify_init1": (294, 26), "fanotify_init": (300, 262), "timer_create": (222, 107), "mlock": (149, 228),
    "flock": (73, 32), "seccomp": (317, 277), "io_uring_setup": (425, 425), "pidfd_open": (434, 434),
    "clone3": (435, 435), "landlock_create_ruleset": (444, 444),
}  # fmt: skip


@machines
def test_calls_that_attacks_are_made_of_are_refused(machine: str) -> None:
    for judge in (False, True):
        answers = {name: answer(machine, pair[machine == "aarch64"], judge=judge) for name, pair in DENIED.items()}
        assert {name for name, found in answers.items() if found not in (REFUSED, UNKNOWN)} == (
            {"sendmsg"} if judge else set()
        )


@machines
def test_locks_only_seem_to_work(machine: str) -> None:
    assert {answer(machine, number_of(machine, "fcntl"), 3, command) for command in (6, 7)} == {SEEMS}


@machines
@pytest.mark.parametrize(
    ("name", "arguments", "allowed"),
    [
        ("fcntl", (3, 1), True),
        ("fcntl", (3, 4, 0x800), True),  # O_NONBLOCK
        ("fcntl", (3, 4, 0x2800), False),  # O_ASYNC
        ("fcntl", (3, HIGH | 4, 0x2000), False),
        *(("fcntl", (3, command, 0), False) for command in (8, 10, 15, 1024, 1026, 1031, 1033, HIGH | 1024)),
        ("ioctl", (1, 0x5401), True),
        *(("ioctl", (1, request), False) for request in (0x8901, 0x8902, 0x5452, 0x5412, 0xC020660B)),
        ("clone", (THREAD,), True),
        ("clone", (THREAD | 0x400000,), True),  # musl
        *(("clone", (flags,), False) for flags in (17, THREAD | 0x10000000, THREAD | 0x2000, 0x10F00)),
        ("prctl", (15,), True),
        *(("prctl", (option,), False) for option in (1, 4, 22, 24, 36, 0x59616D61)),
        ("prlimit64", (0, 7, 0, HIGH), True),
        ("prlimit64", (0, 7, HIGH, 0), False),
        ("prlimit64", (1, 7, 0, HIGH), False),
        ("socketpair", (1, 0x80801), True),
        ("socketpair", (1, 2), False),  # datagrams could be sent to any address
        ("socketpair", (2, 1), False),
        ("sendto", (3, HIGH, 1, 0, 0, 0), True),
        ("sendto", (3, HIGH, 1, 0, HIGH, 16), False),
    ],
)
def test_calls_with_dangerous_modes_are_allowed_for_others(
    machine: str, name: str, arguments: tuple[int, ...], allowed: bool
) -> None:
    assert answer(machine, number_of(machine, name), *arguments) == (ALLOW if allowed else REFUSED)


@machines
def test_the_judge_may_start_no_thread(machine: str) -> None:
    assert answer(machine, CLONE[machine], THREAD, judge=True) == REFUSED


@machines
def test_every_new_thread_is_asked_for(machine: str) -> None:
    program = seccomp.asking_for_threads(machine)
    assert answer(machine, CLONE[machine], THREAD, program=program) == ASK
    assert {answer(machine, number, program=program) for number in range(500)} == {ALLOW}


@machines
def test_calls_of_another_architecture_kill(machine: str) -> None:
    assert answer(machine, 0, architecture=0x40000003) == KILL


def test_the_other_numbering_of_x86_is_denied() -> None:
    assert answer("x86_64", 0x40000000) == UNKNOWN


# --- capabilities -----------------------------------------------------------------------------------------------------


def test_capabilities_name_every_layer_and_are_plain_data() -> None:
    found = capabilities()
    assert tuple(found.layers) == confine.LAYERS
    assert json.loads(json.dumps(found.to_dict())) == found.to_dict()
    assert capabilities() is found


def test_a_layer_left_out_counts_as_missing() -> None:
    whole = Capabilities("Linux x86_64", dict.fromkeys(confine.LAYERS, ""))
    assert whole.working == confine.LAYERS
    assert whole.missing == ""
    assert whole.without("seccomp").working == ("limits", "namespaces", "landlock")
    assert whole.without("seccomp").missing == ""


@pytest.mark.parametrize(
    ("layers", "gap"),
    [
        (("landlock",), "files"),
        (("namespaces", "seccomp"), "the network"),
        (confine.LAYERS, "the network and files"),
    ],
)
def test_what_is_missing_is_a_sentence_with_advice(layers: tuple[str, ...], gap: str) -> None:
    missing = Capabilities("Linux x86_64", dict.fromkeys(confine.LAYERS, "")).without(*layers).missing
    assert missing.startswith(f"generated code cannot be kept from {gap} on this system (")
    assert "allow_weak=True" in missing
    assert "LLM_DEC_POMDP_ALLOW_WEAK=1" in missing


PROBE = """
import os, sys
sys.path.insert(0, sys.argv[1])
from llm_dec_pomdp.sandbox import capabilities as module
import llm_dec_pomdp.sandbox.probes
module = sys.modules["llm_dec_pomdp.sandbox.probes"]
{change}
module.main({{}})
"""


def probed(change: str) -> dict[str, str]:
    root = str(spawn._FOLDER).removesuffix("/llm_dec_pomdp/sandbox")
    done = subprocess.run(
        [spawn.sys.executable, "-c", PROBE.format(change=change), root],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return dict(json.loads(line) for line in done.stdout.splitlines())


@pytest.mark.every(2)
@pytest.mark.skipif(bool(capabilities().missing), reason="not confined here")
@pytest.mark.parametrize(
    ("layer", "change", "reason"),
    [
        ("limits", "module.confine.limit = lambda *a: None", "more memory than allowed"),
        ("landlock", "module.confine.landlock = lambda rules: None", "files could be read"),
        ("seccomp", "module.confine.filter_calls = lambda program: None", "a connection could be made"),
        ("seccomp", "module.confine.listen_for_threads = lambda: os.dup(0)", "a thread could be started unasked"),
        ("seccomp", "module.confine.seccomp.supported = lambda: False", "are not known"),
        ("landlock", "module.confine._LANDLOCK_CREATE = 9999", "Function not implemented"),
    ],
)
def test_a_layer_that_does_nothing_is_found_out(layer: str, change: str, reason: str) -> None:
    found = probed(change)
    assert reason in found[layer]
    assert {name: text for name, text in found.items() if name != layer} == {
        name: text for name, text in capabilities().layers.items() if name != layer
    }


@pytest.mark.parametrize(
    "change",
    ["os.kill(os.getpid(), 9)", pytest.param("__import__('time').sleep(60)", marks=pytest.mark.slow)],
    ids=["dies", "waits"],
)
def test_a_probe_that_does_not_answer_is_an_error(change: str, monkeypatch: pytest.MonkeyPatch) -> None:
    root = str(spawn._FOLDER).removesuffix("/llm_dec_pomdp/sandbox")
    code = PROBE.format(change=f"module._landlock = lambda: {change}")

    def start(*args: object, **kwargs: object) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [spawn.sys.executable, "-c", code, root], stdout=subprocess.PIPE, start_new_session=True
        )

    monkeypatch.setattr(spawn, "start", start)
    monkeypatch.setattr(probes, "PATIENCE", 10.0)
    probes.capabilities.cache_clear()
    with pytest.raises(SandboxError, match=r"'landlock'.* 10 s"):
        SandboxPool(1, allow_weak=True).run([Job("def f(x): return x", "def check(c): assert c(1)", "f")])
