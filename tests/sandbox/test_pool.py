"""The pool: judges that are lost, and its life from the first job to the end of its process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from judging import HONEST, IDENTITY, QUICK, job

from llm_dec_pomdp.sandbox import Job, SandboxPool, Verdict, default_pool, worker

# --- judges that are lost ---------------------------------------------------------------------------------------------

SLOW = job("import time\ndef f(x):\n    time.sleep(0.3)\n    return x\n", "assert c(1) == 1")


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def judge_of(pool: SandboxPool) -> int:
    """The process id of the only judge of a pool, which has judged something; those that were killed leave a folder."""
    assert pool.run([HONEST])[0].outcome == "passed"
    [judge] = {path.name for path in Path(pool.folder).iterdir()} & {path.name for path in Path("/proc").iterdir()}
    return int(judge)


def test_an_idle_judge_that_was_killed_is_replaced(pool: SandboxPool) -> None:
    killed = judge_of(pool)
    os.kill(killed, signal.SIGKILL)
    os.waitid(os.P_PID, killed, os.WEXITED | os.WNOWAIT)
    assert judge_of(pool) != killed


@pytest.mark.parametrize("who", ["judge", *(pytest.param(w, marks=pytest.mark.slow) for w in ("supervisor", "zygote"))])
def test_a_job_whose_process_was_killed_is_tried_again(who: str, pool: SandboxPool) -> None:
    judge = judge_of(pool)
    with ThreadPoolExecutor(1) as thread:
        running = thread.submit(pool.run, [SLOW])
        time.sleep(0.15)
        [supervisor] = children(judge)
        [zygote] = children(supervisor)
        for killed in {"judge": [judge], "zygote": [zygote], "supervisor": [supervisor, zygote]}[who]:
            os.kill(killed, signal.SIGKILL)
        assert running.result()[0].outcome == "passed"


def test_a_job_that_loses_two_judges_is_an_infra_error(pool: SandboxPool, monkeypatch: pytest.MonkeyPatch) -> None:
    def lose(judge: Any, job: Job) -> None:
        judge._process.kill()
        judge.close()
        raise worker.LostError

    with monkeypatch.context() as patched:
        patched.setattr(worker.Worker, "run", lose)
        assert pool.run([HONEST])[0] == Verdict("infra_error", notes=("the judge process was lost twice",))


@pytest.mark.slow
def test_a_silent_judge_counts_as_lost(pool: SandboxPool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "GRACE", 4.0 - QUICK.wall_seconds)  # time for another judge to start, too
    stopped = judge_of(pool)
    os.kill(stopped, signal.SIGSTOP)
    assert pool.run([HONEST])[0].outcome == "passed"
    assert not Path(f"/proc/{stopped}").exists()


@pytest.mark.parametrize(
    "raised",
    [KeyboardInterrupt, *(pytest.param(error, marks=pytest.mark.slow) for error in (TimeoutError, ValueError))],
)
def test_after_an_interruption_no_job_gets_the_answer_of_another(
    raised: type[BaseException], pool: SandboxPool
) -> None:
    def interrupt(*_: object) -> None:
        raise raised

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        pool.run([HONEST])
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        with pytest.raises(raised):
            pool.run([SLOW])
        time.sleep(0.3)  # the answer would be there by now
        wrong = job("def f(x):\n    return 0\n", "assert c(1) == 1")
        assert [pool.run([program])[0].outcome for program in (wrong, HONEST, wrong)] == ["failed", "passed", "failed"]
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


# --- life of a pool ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("workers", [0, -1])
def test_a_pool_needs_a_worker(workers: int) -> None:
    with pytest.raises(ValueError, match=rf"workers is {workers}"):
        SandboxPool(workers)


def test_a_pool_starts_nothing_before_the_first_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    SandboxPool(workers=1)
    assert list(tmp_path.iterdir()) == []


def test_no_jobs_no_verdicts(pool: SandboxPool) -> None:
    assert pool.run([]) == []


def test_verdicts_come_in_the_order_of_the_jobs() -> None:
    jobs = [job(IDENTITY, *["assert c(1) == 1"] * (i % 5 + 1)) for i in range(20)]
    with SandboxPool(workers=2) as pool:
        assert [verdict.total for verdict in pool.run(jobs)] == [i % 5 + 1 for i in range(20)]


def test_closing_ends_the_judges_and_may_be_repeated_or_undone_by_the_next_job() -> None:
    pool = SandboxPool(workers=1)
    pool.close()
    for _ in range(2):
        judge = judge_of(pool)
        pool.close()
        assert not Path(f"/proc/{judge}").exists()
        pool.close()


def test_nothing_is_left_in_the_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    solution = "def f(x):\n    open('litter', 'w').close()\n    return x\n"
    with SandboxPool(workers=2) as pool:
        pool.run([job(solution, "assert c(1) == 1"), job("import os\nos._exit(1)\n", "assert c(1)")] * 3)
        [root] = tmp_path.iterdir()
        assert list(root.glob("*/*")) == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_pools_that_start_at_the_same_moment_keep_their_folders() -> None:
    pools = [SandboxPool(workers=1) for _ in range(6)]
    with ThreadPoolExecutor(len(pools)) as threads:
        assert [found[0].outcome for found in threads.map(lambda pool: pool.run([HONEST]), pools)] == ["passed"] * 6
    for pool in pools:
        pool.close()


def test_several_threads_may_use_one_pool() -> None:
    def run(number: int) -> list[int]:
        jobs = [job(IDENTITY, *["assert c(1) == 1"] * (number + 1)) for _ in range(number % 3 + 1)]
        return [verdict.passed for verdict in pool.run(jobs)]

    with SandboxPool(workers=2) as pool, ThreadPoolExecutor(6) as threads:
        assert list(threads.map(run, range(12))) == [[n + 1] * (n % 3 + 1) for n in range(12)]


def test_the_default_pool_is_one_per_process() -> None:
    assert default_pool() is default_pool()


def run_code(code: str, folder: Path) -> subprocess.Popen[str]:
    """A process of its own, whose temporary folder is `folder`."""
    folder.mkdir(exist_ok=True)
    environment = {**os.environ, "TMPDIR": str(folder)}
    return subprocess.Popen([sys.executable, "-c", code], env=environment, stderr=subprocess.PIPE, text=True)


FORK = """
import os, sys
from llm_dec_pomdp.sandbox import Job, SandboxPool, default_pool

job = Job("def f(x): return x", "def check(c):\\n    assert c(1) == 1\\n", "f")

def judges():
    return default_pool().run([job])[0].outcome == "passed"

def judges_and_leaves_at_once():
    good = judges()
    default_pool().close()
    os._exit(0 if good else 1)

def judges_with_the_pool_of_its_parent():
    good = own.run([job])[0].outcome == "passed" and own.folder != folder
    own.close()
    os._exit(0 if good else 1)

def leaves_at_once():
    os._exit(0)

def leaves_through_atexit():
    sys.exit(0)

def judges_and_leaves_through_atexit():
    sys.exit(0 if judges() else 1)

own = SandboxPool(1)
assert judges() and own.run([job])[0].outcome == "passed"
folder = own.folder
for child in (
    judges_and_leaves_at_once, judges_with_the_pool_of_its_parent, leaves_at_once, leaves_through_atexit,
    judges_and_leaves_through_atexit,
):
    if os.fork() == 0:
        child()
    _, status = os.wait()
    assert status == 0, (child, status)
    assert judges() and own.run([job])[0].outcome == "passed", child
"""


@pytest.mark.slow
def test_a_forked_child_and_its_parent_both_judge(tmp_path: Path) -> None:
    process = run_code(FORK, tmp_path)
    assert (process.communicate(timeout=60)[1], process.returncode) == ("", 0)


@pytest.mark.slow
def test_a_process_that_ends_leaves_no_folder(tmp_path: Path) -> None:
    code = (
        "from llm_dec_pomdp.sandbox import Job, SandboxPool\n"
        "pool = SandboxPool(1)\n"
        "pool.run([Job('def f(x): return x', 'def check(c):\\n    assert c(1) == 1\\n', 'f')])\n"
    )
    endings = ("", "pool.close()", "raise SystemExit(0)")
    folders = [tmp_path / str(number) for number in range(len(endings))]
    processes = [run_code(code + ending, folder) for ending, folder in zip(endings, folders, strict=True)]
    assert [(process.communicate(timeout=60)[1], process.returncode) for process in processes] == [("", 0)] * 3
    assert [list(folder.iterdir()) for folder in folders] == [[]] * 3
