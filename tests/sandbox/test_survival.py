"""What a pool outlives, and that nothing outlives a pool."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from waiting import wait_until

from llm_dec_pomdp.sandbox import Job, Limits, SandboxError, SandboxPool, zygote
from llm_dec_pomdp.sandbox import pool as pool_module

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")

CHECK = "def check(c):\n    assert c(1) == 1\n"
HONEST = Job("def f(x): return x", CHECK, "f")

TRAINER = """
import os, sys
from llm_dec_pomdp.sandbox import Job, Limits, SandboxPool

pool = SandboxPool(2)
check = "def check(c):\\n    assert c(1) == 1\\n"
pool.run([Job("def f(x): return x", check, "f")] * 4)
print(pool.folder, flush=True)
{then}
"""
BUSY = 'pool.run([Job("def f(x):\\n  while True: pass", check, "f", limits=Limits(60, 60))] * 4)'
IDLE = "import time; time.sleep(600)"
FORKED = f"""
if os.fork() == 0:
    {IDLE}
{BUSY}
"""


def processes_of(folder: str) -> list[int]:
    """Judges, keepers, zygotes and programs of a pool."""
    found: list[int] = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if folder in (path / "cmdline").read_bytes().decode("utf-8", "replace"):
                found.append(int(path.name))
        except OSError:
            continue
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("then", "processes"),
    [pytest.param(IDLE, 6, marks=pytest.mark.slow), (BUSY, 8), (FORKED, 8)],
    ids=["idle", "busy", "with a child that lives on"],
)
def test_nothing_is_left_of_a_killed_trainer(then: str, processes: int, tmp_path: Path) -> None:
    trainer = subprocess.Popen(
        [sys.executable, "-c", TRAINER.format(then=then)],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        start_new_session=True,
        text=True,
    )
    assert trainer.stdout is not None
    with trainer.stdout:
        folder = trainer.stdout.readline().strip()
    wait_until(lambda: len(processes_of(folder)) >= processes)
    trainer.kill()
    trainer.wait()
    try:
        wait_until(lambda: not processes_of(folder))
        assert list(tmp_path.iterdir()) == []
    finally:
        os.killpg(trainer.pid, signal.SIGKILL) if then == FORKED else None


IMMORTAL = "import ctypes, time\nctypes.CDLL(None).prctl(1, 0, 0, 0, 0)\ndef f(x):\n    time.sleep(600)\n"


def outcome_after_the_judge_was_killed(pool: SandboxPool) -> str:
    """The outcome of a program that wants to live on, whose first judge is killed and ends with all of its own."""
    with ThreadPoolExecutor(1) as thread:
        running = thread.submit(pool.run, [Job(IMMORTAL, CHECK, "f", limits=Limits(0.1, 0.1))])
        wait_until(lambda: len(processes_of(pool.folder)) == 4)
        first = processes_of(pool.folder)
        [judge] = [int(path.name) for path in Path(pool.folder).iterdir() if path.name.isdigit()]
        os.kill(judge, signal.SIGKILL)
        wait_until(lambda: not set(first) & set(processes_of(pool.folder)))
        return running.result()[0].outcome


@pytest.mark.slow
def test_a_program_that_wants_to_live_on_ends_with_a_killed_judge() -> None:
    with contextlib.ExitStack() as stack, ThreadPoolExecutor(3) as threads:
        pools = [stack.enter_context(SandboxPool(1, without=left)) for left in ([], ["namespaces"], ["seccomp"])]
        assert [pool.run([HONEST])[0].outcome for pool in pools] == ["passed"] * 3
        assert list(threads.map(outcome_after_the_judge_was_killed, pools)) == ["timeout"] * 3


def test_a_folder_whose_owners_were_all_killed_goes_with_the_next_pool(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    stale = tmp_path / "llm-dec-pomdp-judge-stale"
    (stale / "123").mkdir(parents=True)
    (stale / "lock").touch()
    foreign = tmp_path / "llm-dec-pomdp-judge-without-lock"
    foreign.mkdir()
    with SandboxPool(1) as alive:
        alive.run([HONEST])
        assert not stale.exists()
        with SandboxPool(1) as other:
            other.run([HONEST])
            assert alive.run([HONEST])[0].outcome == "passed"
            assert Path(alive.folder).exists()
    assert list(tmp_path.iterdir()) == [foreign]


# --- a full disk ------------------------------------------------------------------------------------------------------

FULL = """
import os, sys
from llm_dec_pomdp.sandbox import Job, SandboxPool
from llm_dec_pomdp.sandbox import confine

check = "def check(c):\\n    assert c(1) == 1\\n"
job = Job("def f(x): return x", check, "f")
writes = Job("def f(x):\\n    open('file', 'w').write('x' * x)\\n    return x", check, "f")
pool = SandboxPool(1)
if sys.argv[1] == "later":
    assert pool.run([job])[0].outcome == "passed"
folder = os.environ["TMPDIR"]
try:
    with open(folder + "/full", "wb") as file:
        while True:
            file.write(b"x" * 4096)
            file.flush()
except OSError:
    pass
try:
    for number in range(10_000):
        os.mkdir(folder + f"/{number}")
except OSError:
    pass
outcomes = [pool.run([each])[0].outcome for each in (job, writes, job)]
pool.close()
assert outcomes == ["passed", "passed", "passed"], outcomes
"""


@pytest.mark.parametrize("when", ["first", pytest.param("later", marks=pytest.mark.slow)])
def test_a_full_temporary_disk(when: str, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = f'mount -t tmpfs -o size=64k,nr_inodes=40 tmpfs {disk} && exec {sys.executable} -c "$CODE" {when}'
    unshare = shutil.which("unshare")
    if unshare is None or subprocess.run([unshare, "-m", "true"], capture_output=True, check=False).returncode:
        pytest.skip("a small disk cannot be mounted here")
    done = subprocess.run(
        [unshare, "-m", "sh", "-c", mount],
        env={**os.environ, "TMPDIR": str(disk), "CODE": FULL},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_no_folder_at_all_is_an_error_with_advice(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(**kwargs: object) -> str:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tempfile, "mkdtemp", full)
    with pytest.raises(SandboxError, match="No space left on device"):
        SandboxPool(1).run([HONEST])


# --- growth -----------------------------------------------------------------------------------------------------------


def resident(pids: list[int]) -> int:
    return sum(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in pids) * 4096


def descriptors(pids: list[int]) -> int:
    return sum(len(list(Path(f"/proc/{pid}/fd").iterdir())) for pid in pids)


def at_rest(pool: SandboxPool) -> list[int]:
    """The processes of a pool of two and this one, once each judge has a confined process for its next program."""
    wait_until(lambda: sorted(descriptors([pid]) for pid in processes_of(pool.folder))[:2] == [4, 4])
    return [os.getpid(), *processes_of(pool.folder)]


@pytest.mark.slow
def test_a_thousand_jobs_leave_no_trace() -> None:
    """`perf/sandbox.py --growth 10000` does the same for as long as one likes."""
    solutions = (
        "def f(x): return x",
        "def f(x):\n  open('file', 'w').close()\n  return x",
        "import os\nos._exit(1)",
        "def f(x): return [x] * 10**3",
    )
    jobs = [Job(solution, CHECK, "f") for solution in solutions]
    with SandboxPool(2) as pool:
        pool.run(jobs * 25)
        before = at_rest(pool)
        memory, open_before, threads = resident(before), descriptors(before), threading.active_count()
        for _ in range(10):
            pool.run(jobs * 25)
        after = at_rest(pool)
        assert len(after) == len(before)
        assert descriptors(after) == open_before
        assert resident(after) < memory + (16 << 20)
        assert threading.active_count() == threads
        assert list(Path(pool.folder).glob("*/*")) == []


def test_a_zygote_is_replaced_after_many_calls(tmp_path: Path) -> None:
    code = (
        "import json, os, sys\n"
        "from llm_dec_pomdp.sandbox import solution, confine\n"
        "from pathlib import Path\n"
        "solution.CALLS_PER_ZYGOTE = 3\n"
        f"zygote = solution.Zygote({str(tmp_path / 'folder')!r}, [], [])\n"
        "zygote.open()\n"
        "pids = []\n"
        "for _ in range(7):\n"
        "    made, pid = zygote.spawn(1 << 29, 2)\n"
        "    made.close()\n"
        "    pids.append(zygote.pid)\n"
        "    zygote.end()\n"
        "zygote.close()\n"
        "print(json.dumps([pids.count(pid) for pid in dict.fromkeys(pids)]))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert json.loads(done.stdout) == [3, 3, 1]


# --- a loaded machine -------------------------------------------------------------------------------------------------


def test_a_starved_program_is_judged_once_more_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    ask = SandboxPool._ask

    def starve_first(self: SandboxPool, job: Job, judge: object) -> object:
        answer, judge = ask(self, job, judge)  # type: ignore[arg-type,assignment]
        asked.append(self._idle.qsize() if self._idle else -1)
        return ({**answer, "outcome": "timeout", "starved": True} if len(asked) == 1 else answer), judge

    monkeypatch.setattr(SandboxPool, "_ask", starve_first)
    with SandboxPool(2) as pool:
        assert pool.run([HONEST])[0].outcome == "passed"
    assert asked == [1, 0]  # the second time with every other judge held back


def test_a_program_that_sleeps_is_not_starved(tmp_path: Path) -> None:
    def states(pid: int, waited: float) -> bool:
        (tmp_path / str(pid)).mkdir(exist_ok=True)
        (tmp_path / str(pid) / "schedstat").write_text(f"{10**9} {int(waited * 1e9)} 7")
        return zygote.starved(proc, pid, 22.0)

    proc = os.open(tmp_path, os.O_RDONLY)
    assert [states(1, waited) for waited in (0.0, 3.0, 10.9, 11.1, 20.0)] == [False, False, False, True, True]
    os.close(proc)


# --- where confinement is missing -------------------------------------------------------------------------------------


def test_a_pool_refuses_where_code_cannot_be_kept_from_files() -> None:
    with pytest.raises(SandboxError, match="allow_weak=True"):
        SandboxPool(1, without=["landlock"]).run([HONEST])
    with SandboxPool(1, without=["landlock"], allow_weak=True) as pool:
        [verdict] = pool.run([HONEST])
    assert (verdict.outcome, verdict.weak) == ("passed", True)


@pytest.mark.parametrize("without", [("namespaces",), ("seccomp",), ("limits",)])
def test_a_layer_may_be_missing_where_another_does_its_work(without: tuple[str, ...]) -> None:
    with SandboxPool(1, without=without) as pool:
        [verdict] = pool.run([HONEST])
    assert (verdict.outcome, verdict.weak) == ("passed", False)


@pytest.mark.parametrize(("value", "allowed"), [("1", True), ("0", False), ("", False)])
def test_a_variable_allows_weak_confinement_in_the_shared_pool(
    value: str, allowed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LLM_DEC_POMDP_ALLOW_WEAK", value)
    pool_module._pool_of.cache_clear()
    assert pool_module.default_pool().allow_weak is allowed
    pool_module._pool_of.cache_clear()


def test_an_unknown_layer_is_an_error() -> None:
    with pytest.raises(ValueError, match="no layer 'seccmp'"):
        SandboxPool(1, without=["seccmp"])


def test_installed_packages_can_be_used_with_site() -> None:
    solution = "import numpy as np\ndef f(x):\n    return np.array(x).sum()\n"
    check = "import numpy as np\ndef check(c):\n    assert c([1, 2]) == 3 and np.isclose(c([1.5]), 1.5)\n"
    with SandboxPool(1, site=True) as pool:
        assert pool.run([Job(solution, check, "f")])[0].outcome == "passed"
