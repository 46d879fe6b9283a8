"""What confines a program: the filter of system calls by a small BPF machine, and the probes of `capabilities`."""

from __future__ import annotations

import dataclasses
import errno
import json
import struct
import subprocess

import pytest

from llm_dec_pomdp.sandbox import Capabilities, boot, capabilities, confine, seccomp
from llm_dec_pomdp.sandbox import capabilities as capabilities_function

ALLOW, KILL = 0x7FFF0000, 0x80000000
ARCHITECTURE = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
THREAD = 0x3D0F00  # the flags of pthread_create
CLONE = {"x86_64": 56, "aarch64": 220}


def answer(machine: str, number: int, *, flags: int = 0, architecture: int | None = None) -> int:
    """What the filter of a machine says to a system call: a classic BPF machine with the five codes that it uses."""
    data = struct.pack("<IIQQ", number, architecture or ARCHITECTURE[machine], 0, flags)
    program = seccomp.program(machine)
    lines = [struct.unpack_from("HBBI", program, at) for at in range(0, len(program), 8)]
    accumulator = place = 0
    while True:
        code, yes, no, value = lines[place]
        if code == 0x06:
            return value
        if code == 0x20:
            accumulator = struct.unpack_from("<I", data, value)[0]
            place += 1
            continue
        holds = {0x15: accumulator == value, 0x35: accumulator >= value, 0x45: bool(accumulator & value)}[code]
        place += 1 + (yes if holds else no)


machines = pytest.mark.parametrize("machine", ARCHITECTURE)


@machines
def test_every_call_on_the_list_is_denied(machine: str) -> None:
    denied = seccomp.numbers(machine)
    assert {"execve", "socket", "ptrace", "kill", "unshare", "io_uring_setup", "mount", "shmget"} <= denied.keys()
    assert {name: answer(machine, number) for name, number in denied.items()} == dict.fromkeys(
        denied, 0x50000 | errno.EPERM
    )


@machines
def test_other_calls_are_allowed(machine: str) -> None:
    others = set(range(460)) - set(seccomp.numbers(machine).values()) - {CLONE[machine], 435}
    assert {answer(machine, number) for number in others} == {ALLOW}
    assert len(others) > 250


@machines
def test_threads_may_be_started_and_processes_not(machine: str) -> None:
    assert answer(machine, CLONE[machine], flags=THREAD) == ALLOW
    assert answer(machine, CLONE[machine], flags=17) == 0x50000 | errno.EPERM
    assert answer(machine, 435) == 0x50000 | errno.ENOSYS


@machines
def test_calls_of_another_architecture_kill(machine: str) -> None:
    assert answer(machine, 0, architecture=0x40000003) == KILL


def test_the_other_numbering_of_x86_is_denied() -> None:
    assert answer("x86_64", 0x40000000) == 0x50000 | errno.EPERM


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
import sys
sys.path.insert(0, sys.argv[1])
from llm_dec_pomdp.sandbox import capabilities as module
import llm_dec_pomdp.sandbox.probes
module = sys.modules["llm_dec_pomdp.sandbox.probes"]
{change}
module.main({{}})
"""


def probed(change: str) -> dict[str, str]:
    root = str(boot._FOLDER).removesuffix("/llm_dec_pomdp/sandbox")
    done = subprocess.run(
        [boot.sys.executable, "-c", PROBE.format(change=change), root],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return json.loads(done.stdout)


@pytest.mark.skipif(bool(capabilities().missing), reason="not confined here")
@pytest.mark.parametrize(
    ("layer", "change", "reason"),
    [
        ("limits", "module.confine.limit = lambda *a: None", "more memory than allowed"),
        ("landlock", "module.confine.landlock = lambda rules: None", "files could be read"),
        ("seccomp", "module.confine.filter_calls = lambda program: None", "a connection could be made"),
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


def test_a_probe_that_does_not_answer_means_nothing_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    def silent(*args: object, **kwargs: object) -> subprocess.Popen[bytes]:
        return subprocess.Popen(["true"], stdout=subprocess.PIPE)

    monkeypatch.setattr(boot, "start", silent)
    found = capabilities_function.__wrapped__()
    assert set(found.layers.values()) == {"the probe did not answer"}
    assert dataclasses.replace(found).missing
