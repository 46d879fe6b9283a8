"""The command line, as a user types it."""

from __future__ import annotations

import dataclasses
import inspect
import json
from collections import Counter
from pathlib import Path

import pytest
from evaluated import last_episodes
from typer.main import get_command
from typer.testing import CliRunner, Result

import llm_dec_pomdp
from llm_dec_pomdp.algorithms.registration import algorithms
from llm_dec_pomdp.benchmarks.suite import Cell, Suite
from llm_dec_pomdp.cli import app
from llm_dec_pomdp.envs.wrappers.protocols import PROTOCOLS
from llm_dec_pomdp.options import Sampling, TrainerConfig
from llm_dec_pomdp.registries import Spec

QUICK = ["--items", "2", "--max-new-tokens", "16", "--device", "cpu"]


def call(*arguments: str, text: str | None = None) -> Result:
    return CliRunner().invoke(app, list(arguments), input=text, env={"COLUMNS": "200"})


def document(*arguments: str) -> dict[str, object]:
    result = call(*arguments, "--json")
    assert result.exit_code == 0, result.output
    found: dict[str, object] = json.loads(result.stdout)
    return found


def test_version() -> None:
    assert call("--version").stdout.strip() == llm_dec_pomdp.__version__


HELP = {
    **dict.fromkeys(("list", "check", "train", "eval", "report", "runs", "export", "doctor"), ()),
    "play": PROTOCOLS,
    "bench": ("paper:", "quick:", "scaling:", "smollm2:"),
}


@pytest.mark.parametrize("command", HELP)
def test_every_command_has_help_with_an_example(command: str) -> None:
    result = call(command, "--help")
    assert result.exit_code == 0
    assert f"llm-dec-pomdp {command}" in result.stdout
    assert all(name in result.stdout for name in HELP[command])


def test_list_names_environments_and_algorithms() -> None:
    found = document("list")
    assert [e["id"] for e in found["environments"]] == list(llm_dec_pomdp.registry)  # type: ignore[attr-defined, index]
    assert {"single", "concat", "sequential", "discussion", "grpo", "magrpo"} <= {
        method["name"]
        for method in found["algorithms"]  # type: ignore[attr-defined, index]
    }
    shown = CliRunner().invoke(app, ["list"], env={"COLUMNS": "80"}).stdout
    assert all(env_id in shown for env_id in llm_dec_pomdp.registry)
    assert "main, 8 readers, 8 analysts" in " ".join(shown.split())
    assert max(map(len, shown.splitlines())) <= 80


def test_the_example_of_a_manual_can_be_copied_from_a_narrow_terminal() -> None:
    shown = CliRunner().invoke(app, ["list", "tldr-v0"], env={"COLUMNS": "80"}).stdout
    assert '\n>>> _, rewards, _, _, _ = env.step({agent: "Too short." for agent in env.agents})\n' in shown


def test_list_shows_the_options_of_a_learner() -> None:
    options = {option["name"]: option for option in document("list", "magrpo")["options"]}  # type: ignore[attr-defined]
    assert (options["warmup"]["type"], options["warmup"]["default"]) == ("int >= 0", "0")
    assert options["alternatives"]["of"] == "credit=message"
    fixed = document("list", "mareinforce")
    assert fixed["fixed"] == {"advantage": "raw"}
    assert "advantage" not in [option["name"] for option in fixed["options"]]  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", [*algorithms, "magrpo_shuffled", "llm_dec_pomdp.algorithms.magrpo:MAGRPO"])
def test_every_option_of_every_learner_is_described_in_a_sentence(name: str) -> None:
    found = document("list", name)
    assert found["about"]
    for option in found["options"]:  # type: ignore[attr-defined]
        assert len(option["about"]) > 10, option
        assert "typing" not in option["type"], option


def test_list_shows_what_a_suite_compares_and_costs() -> None:
    found = document("list", "quick")
    assert "magrpo" in found["methods"]  # type: ignore[operator]
    assert found["environments"]
    assert all(cell["episodes"] > 0 for cell in found["cost"])  # type: ignore[attr-defined]


def test_list_shows_an_environment_of_a_module() -> None:
    assert document("list", "llm_dec_pomdp.envs.relay:Relay")["roles"] == document("list", "relay-v0")["roles"]


def test_a_plugin_that_is_broken_does_not_hide_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = {"acme/lost-v0": Spec("acme/lost-v0", "no_such_module:Lost")}
    for registry in (llm_dec_pomdp.registry, algorithms):
        monkeypatch.setattr(registry, "_announced", broken)
    found = document("list")
    for kind in ("environments", "algorithms"):
        (lost,) = [entry for entry in found[kind] if "error" in entry]  # type: ignore[attr-defined]
        assert "'no_such_module' is not installed" in lost["error"]
    assert len(found["environments"]) == len(llm_dec_pomdp.registry)  # type: ignore[arg-type]
    for command in (["list"], ["list", "--verbose"]):
        result = call(*command)
        assert result.exit_code == 0
        assert "no_such_module" in result.stdout
        assert "tldr-v0" in result.stdout


def test_check_says_which_checks_passed() -> None:
    result = call("check", "tldr-v0")
    assert result.exit_code == 0
    assert "no leaks" in result.stdout


def test_check_of_a_broken_environment_fails_with_exit_code_1(tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text(json.dumps({"id": "a", "prompt": "a post", "reference": ["too", "short"]}) + "\n")
    result = call("check", "tldr-v0", "--tasks", str(rows))
    assert result.exit_code == 1
    assert "'references'" in result.stderr


# What is typed, and what the message names; tests/cli/test_quick_answers.py has those that need no torch.
WRONG = {
    "eval tldr-v0 --algorithm concatt": "concat",
    "eval tldr-v0 --field prompt": "name=column",
    "eval tldr-v0 --team nowhere": "'nowhere'",
    "eval dectiger-v0 --model script:optimum": "script:optimal",
    "eval humaneval-v0 --env expert.model=script:gold": "'script:gold'",
    "check mymod:Foo": "mymod",
    "list magrop": "magrpo",
    "train tldr-v0 --set learning_rate": "learning_rate=VALUE",
    "train --resume runs/nope": "'runs/nope'",
    "eval tldr-v0 --temperature -1": "--temperature = -1.0",
    "train tldr-v0 --algorithm concat": "concat",
    "train tldr-v0 --sharing loar": "sharing",
    "train tldr-v0 --protocol discusion": "discussion",
    "bench quik": "quick",
    "bench quick --set training.step=1": "steps",
    "bench quick --algorithm no_such_module:X": "no_such_module",
    "bench --resume nowhere": "'nowhere'",
    "report one two": "--out",
    "export .": "--out",
    "export . a --out b": "'b'",
    "trace export . a --out b": "'b'",
    "play tldr-v0 --role sumary": "summary",
    "play tldr-v0 --seed -1": "--seed",
    "eval coophumaneval-v0 --env feedback_tests=abc": "feedback_tests = 'abc'",
    "eval tldr-v0 --env max_turns=2": "--turns",
    "eval tldr-v0 --turns 0": "--turns = 0",
    "eval tldr-v0 --items 0": "--items = 0",
    "train tldr-v0 --group-size 1": "group_size is 1",
    "train tldr-v0 --eval-every -1": "--eval-every = -1",
    "train tldr-v0 --sharing lora --load lora_rank=0": "--load lora_rank = 0",
    "train tldr-v0 --load lora_rank=4": "--load lora_rank",
    "train tldr-v0 --load lora_rnak=4": "lora_rank",
    "train tldr-v0 --load dtype=float16": "--load dtype",
    "train tldr-v0 --team t.toml --model m --sharing lora": "--model, --sharing",
    "eval tldr-v0 --team runs/x --algorithm single --sharing lora": "--algorithm, --sharing",
    "eval tldr-v0 --model http://me:word@host/v1#m": "'host/v1'",
    "eval mbpp-v0 --env expert.model=https://host/v1?key=word#m": "'https://host/v1'",
    "eval tldr-v0 --device gpu": "'gpu'",
    "eval tldr-v0 --device cuda:99": "'cuda:99'",
    "bench quick --overwrite": "--overwrite",
    "doctor --only tpc": "tcp",
}


@pytest.mark.parametrize("command", WRONG)
def test_wrong_input_ends_with_a_sentence_and_exit_code_2(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = call(*command.split())
    assert WRONG[command] in result.stderr.replace("\n", " ")
    assert result.exit_code == 2
    assert "Traceback" not in result.output
    assert "word" not in result.output.replace("password", "").replace("builtin:words", "")
    assert list(tmp_path.iterdir()) == []


def test_eval_prints_one_json_document_and_writes_a_run(tmp_path: Path) -> None:
    found = document("eval", "tldr-v0", *QUICK, "--out", str(tmp_path / "run"))
    (result,) = found["results"]  # type: ignore[misc]
    assert result["summary"]["episodes"] == 2
    assert (tmp_path / "run" / "report.md").exists()


def test_eval_reads_a_file_with_other_names(tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text("".join(json.dumps({"paper": i, "abstract": f"text {i}"}) + "\n" for i in range(3)))
    arguments = ["--tasks", str(rows), "--split", "all", "--field", "prompt=abstract", "--field", "id=paper"]
    document("eval", "tldr-v0", *QUICK, *arguments, "--out", str(tmp_path / "run"))
    (cell,) = (tmp_path / "run" / "cells").iterdir()
    episodes = last_episodes(cell)
    assert [episode.item_id for episode in episodes] == ["0", "1"]
    assert "text 0" in episodes[0].turns[0].observations["agent_0"]


@pytest.mark.slow
def test_a_trained_team_is_measured_again_and_trained_on(tmp_path: Path) -> None:
    run = tmp_path / "run"
    size = ["--steps", "1", "--prompts", "2", "--group-size", "2"]
    given = ["--model", "builtin:tiny", "--set", "learning_rate=1e-3"]
    trained = document("train", "tldr-v0", *QUICK, *size, *given, "--out", str(run))
    (cell,) = (run / "cells").iterdir()
    again = document("eval", "tldr-v0", *QUICK, "--team", str(cell / "team"), "--out", str(tmp_path / "again"))
    third = document("eval", "--team", str(run), "--out", str(tmp_path / "third"))
    exported = tmp_path / "exported"
    assert call("export", str(run), "--out", str(exported)).exit_code == 0
    fourth = document("eval", "--team", str(exported), "--out", str(tmp_path / "fourth"))
    means = [
        found["results"][0]["summary"]["return_percent"]["mean"]  # type: ignore[index]
        for found in (trained, again, third, fourth)
    ]
    assert means == [means[0]] * 4
    on = ["--algorithm", "marloo", "--team", str(run), "--out", str(tmp_path / "on")]
    document("train", "tldr-v0", *QUICK, *size, *on)
    (curve,) = tmp_path.glob("on/cells/*/curve.jsonl")
    assert json.loads(curve.read_text().splitlines()[0])["return_percent"]["mean"] == means[0]


@pytest.mark.slow
def test_a_team_is_measured_as_its_run_was_and_what_options_change_is_said(tmp_path: Path) -> None:
    rows, run = tmp_path / "rows.jsonl", str(tmp_path / "run")
    rows.write_text("".join(json.dumps({"id": i, "abstract": f"text {i}"}) + "\n" for i in range(6)))
    as_run = ["--tasks", str(rows), "--eval-tasks", str(rows), "--field", "prompt=abstract", "--turns", "2"]
    as_run += ["--max-new-tokens", "8", "--temperature", "0.7", "--top-p", "0.9", "--items", "3", "--samples", "2"]
    as_run += ["--env", "feedback=level_passed", "--seed", "3"]
    trained = document("train", "tldr-v0", *as_run, "--steps", "0", "--device", "cpu", "--out", run)
    again = call("eval", "tldr-v0", "--team", run, "--json", "--out", str(tmp_path / "again"))
    assert again.stderr == ""
    summaries = [found["results"][0]["summary"] for found in (trained, json.loads(again.stdout))]  # type: ignore[index]
    assert len({s["return_percent"]["mean"] for s in summaries}) == len({s["generated_tokens"] for s in summaries}) == 1
    changed = ["--max-new-tokens", "5", "--samples", "1", "--out", str(tmp_path / "changed")]
    (line,) = call("eval", "--team", run, *changed, "--json").stderr.splitlines()
    assert "sampling.max_new_tokens: 8 -> 5; evaluation.samples: 2 -> 1" in line
    cells = [Cell.read(path) for path in tmp_path.glob("*/cells/*/cell.json")]
    assert {(cell.sampling.temperature, cell.seed, cell.environment.max_turns) for cell in cells} == {(0.7, 3, 2)}
    other = call("eval", "tldr-v1", "--team", run, "--items", "1", "--json", "--out", str(tmp_path / "other"))
    assert "environment.id: 'tldr-v0' -> 'tldr-v1'; environment.tasks: " in other.stderr


def test_defaults_agree_in_commands_suites_and_functions() -> None:
    drawn, length = Sampling().model_dump(), TrainerConfig().model_dump()
    suite = Suite(name="any", environments=[], methods=[])
    assert (suite.sampling.model_dump(), suite.training.model_dump()) == (drawn, length)
    commands = get_command(app).commands  # type: ignore[attr-defined]
    for name, options in {"train": {**drawn, **length}, "eval": drawn, "play": drawn}.items():
        found = {option.name: option.default for option in commands[name].params if option.name in options}
        assert found == {key: options[key] for key in found}
        assert "max_new_tokens" in found
    arguments = inspect.signature(llm_dec_pomdp.train).parameters
    assert {n: arguments[n].default for n in length if n != "keep"} == dict.fromkeys(length.keys() - {"keep"})
    for function in (llm_dec_pomdp.train, llm_dec_pomdp.evaluate, llm_dec_pomdp.collect):
        assert inspect.signature(function).parameters["sampling"].default is None  # that of the team
    team = llm_dec_pomdp.load_team(llm_dec_pomdp.make("dectiger-v0"), "builtin:table")
    assert team.sampling.model_dump() == drawn


@pytest.mark.slow
def test_a_team_that_was_trained_under_a_protocol_is_measured_under_it(tmp_path: Path) -> None:
    run = tmp_path / "run"
    table = ["--model", "builtin:table", "--set", "credit=message", "--set", "budget=9", "--protocol", "sequential"]
    document("train", "relay-v0", *QUICK, "--steps", "1", "--group-size", "1", *table, "--out", str(run))
    document("eval", "relay-v0", *QUICK, "--team", str(run), "--out", str(tmp_path / "again"))
    found = [json.loads(path.read_text())["environment"]["protocol"] for path in tmp_path.glob("*/cells/*/cell.json")]
    assert found == ["sequential"] * 2
    first, again = map(last_episodes, tmp_path.glob("*/cells/*"))
    assert first == again
    found = [text for turn in first[0].turns for text in turn.observations.values()]
    assert any("Already written by the others" in text for text in found)
    (path,) = run.glob("cells/*/train.jsonl")
    metrics = json.loads(path.read_text())["metrics"]
    assert 8 * 3 < metrics["generations"] <= 8 * (3 + 9)


def test_a_dry_run_counts_and_runs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    arguments = ["bench", "quick", "--dry-run", "--seed", "0", "--seed", "1", "--set", "training.steps=3"]
    found: list[dict[str, object]] = json.loads(call(*arguments, "--json").stdout)
    by_environment = Counter(str(entry["label"]).split("-")[0] for entry in found)
    assert by_environment == {"tldr_v0": 5 * 2, "coophumaneval_v2_choice": 2 * 2, "dectiger_v0_H_2": 2 * 2}
    assert all(e["generated_tokens"] and e["minutes"] and e["gigabytes"] for e in found)
    shown = CliRunner().invoke(app, arguments, env={"COLUMNS": "80"}).stdout
    assert "rates of two CPU cores" in " ".join(shown.split())
    assert {"coophumaneval-v2", "sequential", "builtin:table"} <= set(shown.split())  # no word is broken
    assert list(tmp_path.iterdir()) == []


def test_a_model_on_the_command_line_keeps_how_it_is_shared() -> None:
    arguments = ["bench", "smollm2", "--dry-run", "--json", "--seed", "0", "--model", "my-135M.gguf"]
    found = json.loads(call(*arguments).stdout)
    assert {e["label"].split("-")[-2] for e in found} == {"my_135M"}
    assert max(e["gigabytes"] for e in found) < 1.0  # adapters, not a model per agent


BROKEN = """
from llm_dec_pomdp.algorithms.base import Algorithm


class Broken(Algorithm):
    def __init__(self, team, sampling, config=None):
        raise RuntimeError("no such luck")
"""


@pytest.mark.slow
def test_bench_and_report_say_what_failed_and_what_is_noise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "leaves.py").write_text(BROKEN)  # `:leaves:` is an emoji elsewhere
    monkeypatch.syspath_prepend(tmp_path)
    suite = tmp_path / "suite.toml"
    suite.write_text(
        'name = "s"\nmethods = [{ name = "concat" }, { name = "single" }, { name = "leaves:Broken" }]\n'
        'environments = [{ id = "tldr-v0" }]\nsampling = { max_new_tokens = 8 }\nevaluation = { items = 2 }\n'
    )
    run = tmp_path / "run"
    benched = call("bench", str(suite), "--out", str(run), "--trust", "--json")
    assert benched.exit_code == 1
    found = json.loads(benched.stdout)
    assert len(found["results"]) == 2
    [failure] = found["failures"].values()
    assert failure.startswith("RuntimeError: no such luck (")
    assert "leaves.py:7, in __init__" in failure
    again = json.loads(call("bench", "--resume", str(run), "--trust", "--json").stdout)
    assert [r["summary"] for r in again["results"]] == [r["summary"] for r in found["results"]]  # not run once more
    compared = document("report", str(run))
    assert [d["verdict"] for d in compared["differences"]] == ["no verdict below 3 seeds"]  # type: ignore[attr-defined, index]
    assert "one seed: no verdict" in " ".join(call("report", str(run)).stdout.split())


def test_playing_main_and_playing_all_sub_agents() -> None:
    words = ["play", "research-v0", "--task", "train/2/7", "--model", "script:optimal"]
    asks = 'ask("reader", "Who taught Greta Stakel?")\nask("reader", "In which town is the home of Edda Tader?")\n\n'
    main = call(*words, text=asks + "I stop.\n\n")
    assert main.exit_code == 0, main.output
    assert "reports: Edda Tader" in main.output
    assert "0.10 of 1" in main.output
    sub = call(*words, "--role", "reader", text='search("Greta Stakel")\n\nNobody.\n\n' + "No.\n\n" * 7)
    assert sub.exit_code == 0, sub.output
    assert "agent_1 observes" in sub.output
    assert "Edda Tader taught Greta Stakel." in sub.output


@pytest.mark.parametrize(
    ("texts", "total"),
    [("TELL\n\nBOOK Wednesday 11\n\n", "0.95"), ("hello\n\nBOOK Sunday 77\n\nBOOK Wednesday 11\n\n", "0.90")],
    ids=["well", "after an hour that there is not"],
)
def test_playing_one_of_those_who_meet(texts: str, total: str) -> None:
    """By hand: all three are free on Tuesday at 11 and on Wednesday at 11, which the first likes best."""
    words = ["play", "meeting-v0", "--task", "test-24", "--role", "person 1", "--model", "script:optimal"]
    result = call(*words, text=texts)
    assert result.exit_code == 0, result.output
    assert f"{total} of 1" in result.stdout
    assert ("BOOK needs a day and an hour" in result.stdout) == ("Sunday" in texts)


# --- doctor -----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_doctor_tells_what_holds_and_tries_programs() -> None:
    found = document("doctor", "--only", "always_equal", "--only", "printed_verdict")
    assert set(found["layers"]) == {"limits", "namespaces", "landlock", "seccomp"}
    assert found["programs"] == {
        "always_equal": {"outcome": "unsupported", "problems": []},
        "printed_verdict": {"outcome": "failed", "problems": []},
    }
    nothing = {"false_passes": 0, "escapes": 0, "broken_workers": 0}
    working = {name for name, text in found["layers"].items() if text == "holds"}
    assert found["without"] == {layer: {**nothing, "problems": {}, "not_tried": []} for layer in working}
    assert {kind: found[kind] for kind in nothing} == nothing
    assert found["honest"] == 0  # judged with all programs only


@pytest.mark.slow
def test_doctor_fails_when_a_program_gets_through(monkeypatch: pytest.MonkeyPatch) -> None:
    from llm_dec_pomdp.sandbox import doctor

    monkeypatch.setattr(doctor, "CHECK", "def check(candidate):\n    assert candidate(1) is None\n")
    result = call("doctor", "--only", "printed_verdict")
    assert result.exit_code == 1
    assert "printed_verdict: passed 1 of 1" in result.stdout
    assert "0 of 1 hostile programs stopped" in result.stdout
    assert "escapes 0" in result.stdout


def test_doctor_ends_with_a_sentence_when_a_probe_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    from llm_dec_pomdp.sandbox import probes

    monkeypatch.setattr(probes, "PATIENCE", 0.001)
    probes.capabilities.cache_clear()
    result = call("doctor")
    assert result.exit_code == 2
    assert "the probe of 'limits' did not answer" in result.stderr


def test_doctor_judges_the_references_of_the_code_tasks() -> None:
    from llm_dec_pomdp.cli import doctor

    honest = doctor._references()
    assert {name.split()[0] for name in honest} == {"humaneval-v0", "coophumaneval-v0", "mbpp-v0"}
    assert len(honest) >= 250
    chosen = {name: honest[name] for name in ("humaneval-v0 HumanEval/0", "mbpp-v0 mbpp-001")}
    wrong = dataclasses.replace(honest["humaneval-v0 HumanEval/1"], solution="def separate_paren_groups(x): return x")
    judged: list[int] = []
    assert doctor._failed({**chosen, "wrong": wrong}, lambda count, note: judged.append(count)) == ["wrong"]
    assert sum(judged) == 3
