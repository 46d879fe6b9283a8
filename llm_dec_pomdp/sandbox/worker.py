"""The judge process: `python -s -S worker.py` with an empty environment.

Reads one job per frame from standard input, runs it in a forked child under resource limits, answers with one verdict
per frame on standard output, and leaves when its input closes. A frame is a 4-byte big-endian length and UTF-8 JSON.

The child loads the solution, then runs `check` with every assert counted on its own, and reports each result at once
through a pipe, so that a crash or a timeout loses only what came after it. The child knows the tests: this judge
protects the trainer from generated code and is not meant to withstand code that attacks the judge.
"""

from __future__ import annotations

import ast
import contextlib
import json
import os
import resource
import select
import shutil
import signal
import struct
import sys
import tempfile
import time
import types
from typing import Any, BinaryIO, NoReturn

HEADER = struct.Struct(">I")
NOTE_LENGTH = 200
# What solutions usually import: loaded once here, shared by every forked child.
PRELOAD = (
    "bisect collections copy datetime decimal fractions functools hashlib heapq itertools math operator random re "
    "statistics string typing"
).split()


class CaseTimeoutError(BaseException):
    """One assert used more CPU than a case may; not an Exception, so that ordinary handlers let it pass."""


def read_frame(stream: BinaryIO) -> dict[str, Any] | None:
    """The next frame, or None when the stream has ended."""
    header = stream.read(HEADER.size)
    if len(header) < HEADER.size:
        return None
    body = stream.read(HEADER.unpack(header)[0])
    return json.loads(body)


def write_frame(stream: BinaryIO, message: dict[str, Any]) -> None:
    """Write one frame. Lone surrogates survive because JSON is written in ASCII."""
    body = json.dumps(message).encode("ascii")
    stream.write(HEADER.pack(len(body)) + body)
    stream.flush()


# --- rewriting the tests ----------------------------------------------------------------------------------------------


class AssertCounter(ast.NodeTransformer):
    """Turns every `assert X` into a counted case; drops asserts of a true constant.

    The case is `try: __case__(X, source)  except __caught__ as __error__: __failed__(__error__, source)` after
    `__start__()`, which gives it its own CPU allowance. X stays where it was, so names bound in it are seen later.
    """

    def __init__(self) -> None:
        self.count = 0

    def visit_Assert(self, node: ast.Assert) -> Any:
        """Rewrite one assert."""
        if isinstance(node.test, ast.Constant) and node.test.value:
            return ast.copy_location(ast.Pass(), node)
        self.count += 1
        source = ast.Constant(ast.unparse(node.test)[:NOTE_LENGTH])
        case = ast.Expr(ast.Call(ast.Name("__case__", ast.Load()), [node.test, source], []))
        failed = ast.parse(f"__failed__(__error__, {source.value!r})").body
        caught = ast.ExceptHandler(ast.Name("__caught__", ast.Load()), "__error__", failed)
        start = ast.parse("__start__()").body
        return ast.copy_location(ast.Try([*start, case], [caught], [], []), node)


def rewrite_check(source: str) -> tuple[ast.Module, int]:
    """The test module with counted asserts, and how many asserts it holds.

    Statements of a function body that are no asserts are guarded too, and so is each round of a `for` loop: when one
    raises, that is one failed case, and what comes after it still runs.
    """
    counter = AssertCounter()
    tree = counter.visit(ast.parse(source))
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            node.body = [_guarded([statement]) for statement in node.body]
        elif isinstance(node, ast.For):
            node.body = [_guarded(node.body)]
    return ast.fix_missing_locations(tree), counter.count


def _guarded(block: list[ast.stmt]) -> ast.stmt:
    first = block[0]
    if len(block) == 1 and isinstance(
        first, (ast.FunctionDef, ast.Import, ast.ImportFrom, ast.Pass, ast.Return, ast.Try)
    ):
        return first
    text = ast.unparse(first).splitlines()[0][:NOTE_LENGTH]
    failed = ast.parse(f"__broken__(__error__, {text!r})").body
    handler = ast.ExceptHandler(type=ast.Name("Exception", ast.Load()), name="__error__", body=failed)
    return ast.Try(body=block, handlers=[handler], orelse=[], finalbody=[])


# --- the child --------------------------------------------------------------------------------------------------------


def child(job: dict[str, Any], report: BinaryIO, folder: str) -> NoReturn:
    """Run one job and leave; every result is written to `report` as a line of JSON when it is known."""

    def say(**message: Any) -> None:
        report.write(json.dumps(message).encode("ascii") + b"\n")
        report.flush()

    status = 1
    try:
        confine(job["limits"], folder)
        tree, count = rewrite_check(job["check"])
        say(asserts=count)
        module = load(job["prelude"], job["solution"])
        say(loaded=True)
        run_check(tree, module, job, say)
        say(done=True)
        status = 0
    except CaseTimeoutError:
        say(timeout="loading took too long")
    except BaseException as error:  # whatever the program raises, SystemExit too, is its outcome
        with contextlib.suppress(BaseException):
            say(error=explain(error))
    finally:
        os._exit(status)


def confine(limits: dict[str, Any], folder: str) -> None:
    """Own session, no inherited terminal, private working directory, resource limits."""
    os.setsid()
    os.chdir(folder)
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    memory = limits["memory_mb"] << 20
    cpu = max(1, round(limits["cpu_seconds"] + 0.5))
    for kind, value in (
        (resource.RLIMIT_AS, memory),
        (resource.RLIMIT_CPU, cpu),
        (resource.RLIMIT_FSIZE, 1 << 20),
        (resource.RLIMIT_NOFILE, 32),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(kind, (value, value))
    signal.signal(signal.SIGPROF, _on_case_timeout)
    signal.setitimer(signal.ITIMER_PROF, limits["case_seconds"])


def _on_case_timeout(signum: int, frame: Any) -> NoReturn:
    raise CaseTimeoutError


def load(prelude: str, solution: str) -> types.ModuleType:
    """Execute prelude and solution as one module, registered because dataclasses look their module up."""
    module = types.ModuleType("solution")
    sys.modules["solution"] = module
    exec(compile(prelude, "<problem>", "exec"), module.__dict__)
    exec(compile(solution, "<solution>", "exec"), module.__dict__)
    return module


def run_check(tree: ast.Module, module: types.ModuleType, job: dict[str, Any], say: Any) -> None:
    """Run the rewritten tests against the entry point, each assert on its own CPU allowance."""

    def start() -> None:
        signal.setitimer(signal.ITIMER_PROF, job["limits"]["case_seconds"])

    def case(holds: Any, source: str) -> None:
        say(passed=True) if holds else say(passed=False, source=source, problem="assertion failed")

    def failed(error: BaseException, source: str) -> None:
        problem = "took too long" if isinstance(error, CaseTimeoutError) else explain(error)
        say(passed=False, source=source, problem=problem)

    def broken(error: BaseException, source: str) -> None:
        say(passed=False, source=source, problem=explain(error), broken=True)

    tests: dict[str, Any] = {
        "__name__": "tests",
        "__start__": start,
        "__case__": case,
        "__failed__": failed,
        "__broken__": broken,
        "__caught__": (Exception, SystemExit, KeyboardInterrupt, CaseTimeoutError),
    }
    exec(compile(job["prelude"], "<problem>", "exec"), tests)
    exec(compile(tree, "<tests>", "exec"), tests)
    sys.modules["random"].seed(0)  # tests that draw inputs draw the same ones every time
    candidate = getattr(module, job["entry_point"])
    tests.setdefault(job["entry_point"], candidate)  # some tests call the function by its own name
    tests["check"](candidate)


def explain(error: BaseException) -> str:
    """`TypeName: message`, cut to a sane length and free of characters that do not encode."""
    try:
        text = f"{type(error).__name__}: {error}"
    except BaseException:  # a hostile __str__
        text = type(error).__name__
    return text[:NOTE_LENGTH].encode("utf-8", "replace").decode()


# --- the judge --------------------------------------------------------------------------------------------------------


def judge(job: dict[str, Any], root: str) -> dict[str, Any] | None:
    """Run one job in a child; the verdict as a dictionary, None when the caller has gone away meanwhile."""
    folder = tempfile.mkdtemp(dir=root)
    reader, writer = os.pipe()
    started = time.monotonic()
    pid = os.fork()
    if pid == 0:
        os.close(reader)
        child(job, os.fdopen(writer, "wb"), folder)
    os.close(writer)
    deadline = started + 4 * job["limits"]["cpu_seconds"] + 2
    lines, ended, orphaned = collect(reader, deadline)
    os.close(reader)
    for target in (os.killpg, os.kill):  # the whole session; and the child itself should it not have made one yet
        with contextlib.suppress(ProcessLookupError, PermissionError):
            target(pid, signal.SIGKILL)
    _, _, usage = os.wait4(pid, 0)
    shutil.rmtree(folder, ignore_errors=True)
    if orphaned:
        return None
    cpu = usage.ru_utime + usage.ru_stime
    out_of_time = not ended or cpu >= job["limits"]["cpu_seconds"]
    return verdict(lines, out_of_time) | {"cpu_seconds": cpu, "wall_seconds": time.monotonic() - started}


def collect(reader: int, deadline: float) -> tuple[list[dict[str, Any]], bool, bool]:
    """What the child reported, whether it ended by itself in time, and whether our own caller has gone."""
    data = b""
    ended = orphaned = False
    while not ended and not orphaned:
        remaining = deadline - time.monotonic()
        ready, _, _ = select.select([reader, sys.stdin], [], [], max(0.0, remaining))
        if reader in ready:
            chunk = os.read(reader, 1 << 16)
            data += chunk
            ended = not chunk
        elif sys.stdin in ready:  # nothing is ever sent before the answer: this is the end of our input
            orphaned = True
        elif remaining <= 0:
            break
    lines: list[dict[str, Any]] = []
    for line in data.split(b"\n")[:-1]:
        with contextlib.suppress(ValueError):
            lines.append(json.loads(line))
    return lines, ended, orphaned


def verdict(lines: list[dict[str, Any]], out_of_time: bool) -> dict[str, Any]:
    """Sum the reports up. What was not reached counts as failed."""
    cases = [line for line in lines if "passed" in line]
    passed = sum(line["passed"] for line in cases)
    asserts = max((line["asserts"] for line in lines if "asserts" in line), default=0)
    done = any("done" in line for line in lines)
    loaded = any("loaded" in line for line in lines)
    errors = [line["error"] for line in lines if "error" in line]
    timed_out = any("timeout" in line for line in lines) or (out_of_time and not done)
    whole = done and not any("broken" in line for line in cases)
    total = len(cases) if whole else max(asserts, len(cases) + (0 if done else 1))
    if timed_out:
        outcome = "timeout"
    elif not loaded:
        outcome = "load_error" if errors else "died"
    elif not done:
        outcome = "died"
    else:
        outcome = "passed" if passed == total and total else "failed"
    failures = [f"{line['source']}: {line['problem']}" for line in cases if not line["passed"]]
    results = [line["passed"] for line in cases] + [False] * (total - len(cases))
    return {"outcome": outcome, "passed": passed, "total": total, "cases": results, "notes": [*errors, *failures]}


def main() -> None:
    """Serve jobs until the input ends."""
    for name in PRELOAD:
        __import__(name)
    root = sys.argv[1]
    while (job := read_frame(sys.stdin.buffer)) is not None:
        answer = judge(job, root)
        if answer is None:
            return
        write_frame(sys.stdout.buffer, answer)


if __name__ == "__main__":
    sys.path.pop(0)  # the folder of this file is no place to import from
    main()
