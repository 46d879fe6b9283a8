"""modules-v0: packages, candidates, and turns with tools and messages."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence

import pytest

import llm_dec_pomdp
from llm_dec_pomdp.contrib.software.modules import Modules
from llm_dec_pomdp.contrib.software.mutants import of_module
from llm_dec_pomdp.contrib.software.packages import emptied, own_rows, stub, unpacked
from llm_dec_pomdp.envs import check_env
from llm_dec_pomdp.envs.tools.calls import written
from llm_dec_pomdp.envs.wrappers import Choices, with_protocol
from llm_dec_pomdp.sandbox import Job, default_pool
from llm_dec_pomdp.types import TaskItem

SIZES = (3, 4, 5, 6)


@pytest.mark.every(2)
@pytest.mark.parametrize("modules", SIZES)
def test_packages_differ_and_every_module_matters(modules: int) -> None:
    rows = own_rows(f"packages_{modules}")
    assert [sum(row.split == split for row in rows) for split in ("train", "test")] == [60, 20]
    assert len({row.fields["solution"] for row in rows}) == len(rows)
    for row in rows[:: len(rows) // 4]:
        files = unpacked(row.fields["solution"])
        without = [tuple((p, stub(s) if p == path else s) for p, s in files) for path, _ in files]
        verdicts = default_pool().run([Job("", row.fields["test"], "", modules=m) for m in (files, *without)])
        assert [verdict.outcome == "passed" for verdict in verdicts] == [True, *[False] * modules]


@pytest.mark.slow
@pytest.mark.every(2)
@pytest.mark.parametrize("modules", SIZES)
def test_candidate_modules_are_what_they_are_called(modules: int) -> None:
    rows = own_rows(f"packages_{modules}")
    for row in rows[:: len(rows) // 4]:
        files = unpacked(row.fields["solution"])
        for place, (path, _) in enumerate(files):
            of_kind = of_module(row.fields["solution"], place)
            assert len(set(of_kind.values())) == len(of_kind) == 6
            programs = [(*files[:place], (path, source), *files[place + 1 :]) for source in of_kind.values()]
            verdicts = default_pool().run([Job("", row.fields["test"], "", modules=program) for program in programs])
            for kind, verdict in zip(of_kind, verdicts, strict=True):
                assert (verdict.outcome == "passed") == (kind in ("gold", "alone", "fallback")), (row.id, path, kind)
                assert kind != "off by one" or verdict.passed, (row.id, path)


@pytest.mark.slow
def test_a_single_agent_that_chooses_module_after_module_receives_the_reward_of_a_team() -> None:
    team = llm_dec_pomdp.make("modules-v0", split="train", modules=3, candidates=True, max_turns=1)
    assert isinstance(team, Choices)
    single = with_protocol(team, "centralized")
    assert check_env(single, rows=2)
    item = team.items[0]
    for kinds in (("gold", "gold", "alone"), ("gold", "stub", "gold")):
        texts = [of_module(item.fields["solution"], place)[kind] for place, kind in enumerate(kinds)]
        letters = {
            agent: next(letter for letter, offered in team.lettered(item, agent).items() if offered == text)
            for agent, text in zip(team.possible_agents, texts, strict=True)
        }
        team.reset(options={"task_id": item.id})
        reward = team.step(letters)[1]["agent_0"]
        assert (reward == 1.0) is ("stub" not in kinds)
        single.reset(options={"task_id": item.id})
        assert [single.step({"agent_0": letter})[1]["agent_0"] for letter in letters.values()] == [0, 0, reward]
    with pytest.raises(ValueError, match="no candidate actions"):
        row = dict(item.fields, id="mine", prompt=item.prompt)
        llm_dec_pomdp.make("modules-v0", tasks=[row], modules=3, candidates=True)


def test_files_tests_and_messages() -> None:
    env = llm_dec_pomdp.make("modules-v0", split="all", modules=3, messages=True, message_cost=0.1, call_cost=0.01)
    env.reset(options={"index": 0})
    sources, (path, *_) = env.item.reference, [path for path, _ in unpacked(env.item.fields["solution"])]
    call = written("write_file", {"path": path, "text": sources[0]}) + written("run_tests", {"module": "reader"})
    texts = {"agent_0": call, "agent_1": f"to desk: the fee is in rates\n\n{sources[1]}", "agent_2": ""}
    observations, rewards, *_ = env.step(texts)
    assert "4 of 4 tests of reader pass." in observations["agent_0"]
    assert "From rates: the fee is in rates" in observations["agent_2"]
    assert "0 of" in observations["agent_2"]
    assert env.last_score is not None
    assert rewards["agent_0"] == pytest.approx(env.last_score.components["tests"] - 0.12)
    _, rewards, terminations, *_ = env.step({"agent_0": "", "agent_1": "", "agent_2": sources[2]})
    assert terminations["agent_0"]
    assert env.last_score.components == {"tests": 1.0, "costs": pytest.approx(-0.12)}


@pytest.mark.parametrize(
    "form", ["{}", "So:\n```python\n{}```\nDone.", "```python\n{}", "~~~\n{}~~~", "```\nx = (\n```\n```\n{}```"]
)
def test_a_module_is_all_of_the_text_or_a_fenced_block_that_parses(form: str) -> None:
    env = Modules(split="test")
    env.reset(options={"index": 0})
    texts = [f'"""About.\n\n```\ndef example(): ...\n```\n"""\n{source}' for source in env.item.reference]
    _, rewards, *_ = env.step(dict(zip(env.possible_agents, [form.format(text) for text in texts], strict=True)))
    assert set(rewards.values()) == {1.0}


def test_who_breaks_whose_tests_is_an_event() -> None:
    env = Modules(split="all", modules=3, max_turns=3)
    env.reset(options={"task_id": "train-3-02"})  # reader, batches, totals
    reader, batches, _ = env.item.reference
    env.step({"agent_0": reader, "agent_1": batches, "agent_2": ""})
    env.step({"agent_0": reader.replace("strip()", "upper()"), "agent_1": "", "agent_2": ""})
    broke = [(event.agent, event.details["of"]) for event in env.latest.transition.events if event.kind == "broke"]
    assert broke == [("agent_0", "agent_1")]


def test_an_author_reads_the_rules_of_its_own_module() -> None:
    env = Modules(split="all", modules=3)
    observations = env.reset(options={"index": 0})[0]
    rates, desk = observations["agent_1"], observations["agent_2"]
    [table] = re.findall(r"It is [^.]* for any\s+other\.", rates)
    assert table not in desk
    assert '    """The rate of a ' in desk


@pytest.mark.slow
@pytest.mark.parametrize("modules", SIZES)
def test_modules_without_a_purpose_receive_nothing(modules: int) -> None:
    for item in own_rows(f"packages_{modules}")[::16]:
        sources = [source for _, source in unpacked(item.fields["solution"])]
        for body in ("raise ValueError", "return None", "return False", "return 1", "return ''", "return []"):
            empty = [ast.unparse(emptied(source, ast.parse(body).body[0])) for source in sources]
            assert received(modules, item, empty) == 0, (item.id, body)


def received(modules: int, item: TaskItem, sources: Sequence[str]) -> float:
    env = Modules([dict(item.fields, id=item.id, prompt=item.prompt)], split="all", modules=modules, max_turns=1)
    env.reset(seed=0)
    return env.step(dict(zip(env.possible_agents, sources, strict=True)))[1]["agent_0"]


def test_a_module_that_replaces_others_receives_nothing_for_them() -> None:
    item = own_rows("packages_3")[0]
    reader, rates = (source for _, source in unpacked(item.fields["solution"])[:2])
    package = unpacked(item.fields["solution"])[0][0].partition("/")[0]
    replacing = f"from {package} import rates\n\n{reader}\nexec({rates!r}, vars(rates))\n"
    alone = received(3, item, [reader, "", ""])
    assert 0 < alone == received(3, item, [replacing, "", ""]) < 0.45


def test_every_module_contributes() -> None:
    env = Modules(split="all", modules=3)
    assert min(env.contributions(env.items[0], env.items[0].reference)) > 0.2
