"""The pages say what the package says."""

from __future__ import annotations

import re
import runpy
import sys
from pathlib import Path

import pytest

from llm_dec_pomdp.benchmarks.suite import about_suites, load_suite
from llm_dec_pomdp.config import read_toml
from llm_dec_pomdp.envs.registration import registry
from llm_dec_pomdp.report.published import PUBLISHED

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "scripts"))  # its scripts import each other
BUILD = runpy.run_path(str(ROOT / "scripts" / "build_docs.py"))
PAGES = ("README.md", "docs/index.md")
FAMILIES = BUILD["environment_pages"].FAMILIES
SOURCES = BUILD["environment_pages"].SOURCES


@pytest.mark.parametrize("name", sorted(BUILD["PAGES"]))
def test_a_generated_page_is_up_to_date(name: str) -> None:
    written = (ROOT / "docs" / name).read_text(encoding="utf-8")
    assert written == BUILD["PAGES"][name](), f"docs/{name} has fallen behind: python scripts/build_docs.py"


def test_every_environment_is_in_the_gallery_and_its_figures_are_small() -> None:
    shown = [name for names in FAMILIES.values() for name in names]
    assert {*shown, "bfcl"} == {*SOURCES}
    assert sorted(shown) == sorted({env_id.partition("-v")[0] for env_id in registry if "/" not in env_id})
    folder = ROOT / "docs" / "environments"
    named = {f"{name}{kind}.svg" for name in SOURCES for kind in ("", "_returns")}
    assert {path.name for path in (folder / "figures").iterdir()} == named
    assert all((folder / "figures" / name).stat().st_size < 60_000 for name in named)


def test_the_picture_of_an_episode_is_up_to_date() -> None:
    drawn = runpy.run_path(str(ROOT / "scripts" / "draw_rollout.py"))
    assert drawn["PICTURE"].read_text(encoding="utf-8") == drawn["draw"](*drawn["PLAYED"])


def test_the_suite_on_the_benchmark_page_loads(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "benchmark.md").read_text(encoding="utf-8")
    (written,) = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    (tmp_path / "mine.toml").write_text(written, encoding="utf-8")
    suite = load_suite(str(tmp_path / "mine.toml"))
    assert {cell.evaluation.samples for cell in suite.cells()} == {15}
    assert all(f"| `{name}` |" in page for name in about_suites())


def test_the_tests_that_pages_name_exist() -> None:
    """A page may cut a name short: test_three_bad_steps_..."""
    pages = "".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "docs").rglob("*.md")))
    tests = "".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "tests").rglob("test_*.py")))
    named = set(re.findall(r"::(test_\w+)", pages))
    assert len(named) > 20
    assert [name for name in sorted(named) if f"def {name}" not in tests] == []


def test_the_page_on_reproducing_quotes_what_was_published_and_the_suite() -> None:
    page = (ROOT / "docs" / "reproduce.md").read_text(encoding="utf-8")
    assert page.split("\n\n")[1].startswith("**This has not been run at full size yet.**")
    rows = {
        line.split("|")[1].strip(): line for line in page.split("## Published")[1].splitlines() if line[:3] == "| `"
    }
    for quoted in PUBLISHED:
        assert f"{quoted.return_percent}" in rows[f"`{quoted.environment}`"]
    for environment in load_suite("paper").environments:
        (row,) = re.findall(rf"\| `{environment.id}` \| 2 x .*", page)
        assert f"| {environment.training['steps']} |" in row
        assert str(environment.model["name"]).rpartition("/")[2] in row


def test_the_start_page_has_the_program_of_the_readme() -> None:
    shown = [re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)[0] for page in PAGES]
    assert shown[0] == shown[1], "docs/index.md has another first program than README.md; copy it"


def test_no_page_or_message_installs_this_package_from_an_index_that_lacks_it() -> None:
    """Extras are installed in a clone; only the steps of a release install the released package by its name."""
    release = ROOT / "docs" / "notes" / "release.md"
    places = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "docs" / "tutorial.ipynb"]
    for folder, pattern in (("docs", "*.md"), ("llm_dec_pomdp", "*.py"), ("examples", "*.py"), ("tests", "*.py")):
        places += (ROOT / folder).rglob(pattern)
    command = re.compile(r"pip install[^`\n&]*?llm[-_]dec[-_]pomdp(?![-\w/.])")
    found = {
        str(path.relative_to(ROOT)): command.findall(path.read_text(encoding="utf-8"))
        for path in places
        if path not in (release, Path(__file__))
    }
    assert {place: commands for place, commands in found.items() if commands} == {}
    extras = read_toml(ROOT / "pyproject.toml")["project"]["optional-dependencies"]
    pages = "".join(path.read_text(encoding="utf-8") for path in places)
    named = re.findall(r"pip install[^`\n]*? -e [\"']\.\[([\w, ]+)\]", pages)
    assert {name.strip() for names in named for name in names.split(",")} - {*extras} == set()
