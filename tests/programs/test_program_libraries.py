"""Agent programs of other libraries; `nox -s "program(...)"` installs them."""

from __future__ import annotations

import importlib
import re
import runpy
from pathlib import Path
from typing import Any

import pytest
import torch
from agent_programs import ROWS, plan_and_write, score

import llm_dec_pomdp
from llm_dec_pomdp import from_program
from llm_dec_pomdp.episodes import read_openai_agents

EXAMPLES = Path(__file__).parents[2] / "examples" / "programs"


@pytest.mark.slow
@pytest.mark.parametrize(("name", "library"), [("langgraph_team", "langgraph"), ("openai_agents_team", "agents.run")])
def test_a_program_of_another_library_learns_and_its_control_does_not(name: str, library: str) -> None:
    pytest.importorskip(library)
    pytest.importorskip("openai")
    program = runpy.run_path(str(EXAMPLES / f"{name}.py"))
    returns: dict[str, float] = {}
    for learner in ("magrpo", "magrpo_shuffled"):
        given = {key: program[key.upper()] for key in ("tasks", "choices")}
        env = from_program(program["solve"], roles=list(given["choices"]), score=program["score"], split="all", **given)
        team = llm_dec_pomdp.load_team(env)
        llm_dec_pomdp.train(team, env, learner, steps=30, seed=0)
        returns[learner] = llm_dec_pomdp.evaluate(team, env, samples=20).return_percent.mean
    assert returns["magrpo"] > returns["magrpo_shuffled"] + 20


@pytest.mark.slow
def test_a_program_with_the_openai_client_plays_what_it_plays_with_roles() -> None:
    openai = pytest.importorskip("openai")

    def solve(task: Any, roles: Any) -> str:
        def ask(role: str, text: str) -> str:
            client = openai.OpenAI(base_url=roles[role].base_url, api_key=roles[role].api_key)
            messages = [{"role": "user", "content": text}]
            return client.chat.completions.create(model=role, messages=messages).choices[0].message.content

        return ask("writer", f"Plan: {ask('planner', task['prompt'])}\n{task['prompt']}")

    weights: list[dict[str, torch.Tensor]] = []
    for program in (plan_and_write, solve):
        env = from_program(program, roles=["planner", "writer"], tasks=ROWS, split="all", score=score)
        team = llm_dec_pomdp.load_team(env, "builtin:tiny", seed=0)
        sampling = llm_dec_pomdp.Sampling(max_new_tokens=12)
        llm_dec_pomdp.train(team, env, "magrpo", steps=3, prompts_per_step=2, group_size=2, seed=0, sampling=sampling)
        weights.append({f"{n} {k}": v for n, policy in team.members.items() for k, v in policy.state_dict().items()})
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])


@pytest.mark.slow
def test_the_processor_on_the_page_of_traces_writes_a_log_that_is_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("agents.run")  # a folder of the tests is called agents, too
    agents = importlib.import_module("agents")
    page = (EXAMPLES.parents[1] / "docs" / "traces.md").read_text(encoding="utf-8")
    [program] = re.findall(r"```python\n(import json\n.*?)```", page, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    agents.set_tracing_disabled(False)  # the example of this library disables it
    agents.set_trace_processors([])  # none that sends
    exec(compile(program, "traces.md", "exec"), {})
    said = [{"role": "assistant", "content": "two"}]
    call = {"input": [{"role": "user", "content": "one"}], "output": said, "model": "m"}
    with agents.trace("painters"), agents.agent_span("scout"), agents.generation_span(**call):
        pass
    [trace] = read_openai_agents(tmp_path / "log.jsonl")
    assert trace["system"] == "painters"
    assert [(e["agent"], e["content"]) for e in trace["events"] if "content" in e] == [
        ("environment", "one"),
        ("scout", "two"),
    ]
