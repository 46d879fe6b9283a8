"""What all tests share: threads, public test data, a server, a browser, hypothesis without a clock or a database."""

from __future__ import annotations

import functools
import gc
import importlib
import json
import os
import shutil
import signal
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import typer.testing
from hypothesis import HealthCheck, settings
from servers import Server, serving

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

    from llm_dec_pomdp.benchmarks.suite import Suite

REPOSITORY = Path(__file__).resolve().parents[1]

settings.register_profile(
    "suite",
    database=None,
    deadline=None,
    derandomize=True,
    max_examples=25,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("suite")

# That files are durable matters to a loss of power alone; tests look at the order of the calls where it counts.
os.fsync = lambda handle: None

# The command line is put together once, and not for every call of a command in a test.
typer.testing._get_command = functools.cache(typer.testing._get_command)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--data", help="folder of public test data with data/ and golden/ (or LLM_DEC_POMDP_DATA)")


def pytest_configure() -> None:
    """Processes that run tests at the same time share the cores; said before anything loads torch."""
    gc.disable()  # until all tests are collected, which makes many objects and no garbage
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    if workers > 1:
        os.environ.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // workers)))
    if "PYTEST_XDIST_WORKER" in os.environ:  # Ctrl-C ends a worker at once, whatever its test is doing
        signal.signal(signal.SIGINT, lambda number, frame: os._exit(128 + number))


@pytest.fixture(scope="session")
def shared_data(request: pytest.FixtureRequest) -> Path:
    """The folder with `data/` and `golden/`."""
    named = request.config.getoption("--data") or os.environ.get("LLM_DEC_POMDP_DATA")
    folder = Path(named) if named else REPOSITORY.parent / "shared"
    if not folder.is_dir():
        pytest.skip(
            f"no public test data in {str(folder)!r}: name the folder with data/ and golden/ "
            "by --data or LLM_DEC_POMDP_DATA"
        )
    return folder


@pytest.fixture(scope="session")
def golden(shared_data: Path) -> Callable[[str], list[dict[str, Any]]]:
    """`golden("tldr")` -> rows with `completions` and the published `reward`."""

    def read(name: str) -> list[dict[str, Any]]:
        path = shared_data / "golden" / f"{name}.jsonl"
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]

    return read


@pytest.fixture
def server(hasty: None) -> Iterator[Server]:
    """A server of the OpenAI kind."""
    yield from serving()


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """What fails is tried again soon."""
    monkeypatch.setattr("llm_dec_pomdp.http._FIRST_WAIT", 0.01)


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], dict[str, Any]]:
    """What a file of examples/recipes defines, as a module of a user's."""
    monkeypatch.syspath_prepend(str(REPOSITORY / "examples"))
    return lambda name: vars(importlib.import_module(f"recipes.{name}"))


@pytest.fixture(scope="session")
def cluster() -> Generator[Any]:
    """Ray on two machines of one core, which are two raylets here."""
    from ray.cluster_utils import Cluster

    settings = {"worker_register_timeout_seconds": "300", "USAGE_STATS_ENABLED": "0", "memory_monitor_refresh_ms": "0"}
    with pytest.MonkeyPatch.context() as patched:
        for name, value in settings.items():
            patched.setenv(f"RAY_{name}", value)
        machines = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
        machines.add_node(num_cpus=1)
        yield machines
        machines.shutdown()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What needs a browser is slow, and so are those of many like cases that `every` leaves out of the default run."""
    cases = Counter[str]()
    for item in items:
        if "browser" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.slow)
        if (mark := item.get_closest_marker("every")) and not item.get_closest_marker("slow"):
            test = item.nodeid.partition("[")[0]
            if cases[test] % mark.args[0]:
                item.add_marker(pytest.mark.slow)
            cases[test] += 1


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.set_threshold(10_000)  # tests leave little to collect, and collecting often costs a share of all time
    gc.enable()


QUIET = ("--no-sandbox", "--disable-background-networking", "--disable-component-update", "--disable-sync")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A Chromium without a window."""
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if path is None:
        pytest.skip("no Chromium on this machine")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as started:
        launched = started.chromium.launch(executable_path=path, args=QUIET)
        yield launched
        launched.close()


@pytest.fixture
def opened(browser: Browser) -> Iterator[Callable[..., Page]]:
    """`opened(path, width=1280)` -> that page; at the end nothing was complained about, run or asked for elsewhere."""
    complaints: list[str] = []
    asked: set[str] = set()
    pages: dict[str, Page] = {}

    def open_page(path: Path, width: int = 1280) -> Page:
        page = browser.new_page(viewport={"width": width, "height": 900})
        page.set_default_timeout(10_000)
        page.on(
            "console", lambda message: complaints.append(message.text) if message.type in ("error", "warning") else None
        )
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("dialog", lambda dialog: complaints.append(dialog.message))
        page.on("request", lambda request: asked.add(request.url))
        page.goto(path.as_uri())
        pages[path.as_uri()] = page
        return page

    yield open_page
    for page in pages.values():
        page.close()
    assert complaints == []
    assert asked == set(pages)


# --- a small suite that was run once, with the built-in model --------------------------------------------------------

SMALL = """
name = "small"
methods = [{ name = "single" }, { name = "concat" }, { name = "magrpo" }]
environments = [{ id = "tldr-v0" }, { id = "coophumaneval-v0" }]
models = [{ name = "builtin:tiny" }]
sampling = { max_new_tokens = 24 }
training = { steps = 2, prompts_per_step = 2, group_size = 2 }
evaluation = { items = 2, every = 1, timing = 1 }
"""


@pytest.fixture(scope="session")
def small_toml() -> str:
    """The small suite as its file says it."""
    return SMALL


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory, small_toml: str) -> Suite:
    """The small suite."""
    from llm_dec_pomdp.benchmarks.suite import load_suite

    path = tmp_path_factory.mktemp("suite") / "small.toml"
    path.write_text(small_toml, encoding="utf-8")
    return load_suite(str(path))


@pytest.fixture(scope="session")
def run(small: Suite, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of its run, which is not to be changed; the processes of one test run share it."""
    from filelock import FileLock
    from written_runs import run_here

    mine = tmp_path_factory.getbasetemp()
    folder = (mine.parent if "PYTEST_XDIST_WORKER" in os.environ else mine) / "small"
    with FileLock(f"{folder}.lock"):
        if not folder.exists():
            run_here(small, folder)
    return folder
