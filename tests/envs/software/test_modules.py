"""modules-v0: packages, turns with tools and messages, and the form in which two features are merged."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence

import pytest

import llm_dec_pomdp
from llm_dec_pomdp.agents import Sampling, Scripted
from llm_dec_pomdp.envs.checks import check_env
from llm_dec_pomdp.envs.software import merge
from llm_dec_pomdp.envs.software.candidates import OF_MODULES
from llm_dec_pomdp.envs.software.modules import Modules
from llm_dec_pomdp.envs.software.packages import COUNTS, PLANS, depth, emptied, imports_of, own_rows, stub, unpacked
from llm_dec_pomdp.envs.tools.calls import written
from llm_dec_pomdp.rollout import Trajectories
from llm_dec_pomdp.sandbox import Job, default_pool
from llm_dec_pomdp.types import Group, TaskItem


@pytest.mark.every(2)
@pytest.mark.parametrize("modules", PLANS)
def test_packages_differ_and_every_module_matters(modules: int) -> None:
    rows = own_rows(modules, 0, 2)
    assert [sum(row.split == split for row in rows) for split in COUNTS] == [*COUNTS.values()]
    assert len({row.fields["solution"] for row in rows}) == len(rows)
    for row in rows[:: len(rows) // 4]:
        files = unpacked(row.fields["solution"])
        without = [tuple((p, stub(s) if p == path else s) for p, s in files) for path, _ in files]
        verdicts = default_pool().run([Job("", row.fields["test"], "", modules=m) for m in (files, *without)])
        assert [verdict.outcome == "passed" for verdict in verdicts] == [True, *[False] * modules]


@pytest.mark.every(4)
@pytest.mark.parametrize("modules", PLANS)
@pytest.mark.parametrize("shared", [1, 2])
def test_candidate_modules_are_what_they_are_called(modules: int, shared: int) -> None:
    rows = own_rows(modules, 0, shared)
    for row in rows[:: len(rows) // 4]:
        files = unpacked(row.fields["solution"])
        for place, (path, _) in enumerate(files):
            of_kind = OF_MODULES.of(row, place)
            assert len(set(of_kind.values())) == len(of_kind)
            programs = [(*files[:place], (path, source), *files[place + 1 :]) for source in of_kind.values()]
            verdicts = default_pool().run([Job("", row.fields["test"], "", modules=program) for program in programs])
            for kind, verdict in zip(of_kind, verdicts, strict=True):
                assert (verdict.outcome == "passed") == (kind in ("gold", "alone", "fallback")), (row.id, path, kind)
                assert kind != "off by one" or verdict.passed, (row.id, path)


def test_authors_choose_modules_by_a_letter() -> None:
    env = Modules(split="train", modules=3, candidates=True)
    env.reset(options={"index": 0})
    chosen: dict[str, str] = {}
    for place, agent in enumerate(env.possible_agents):
        letters = env.choices(agent, env.history(agent))
        kinds = {OF_MODULES.kind_of(env.item, place, letter): letter for letter in letters}
        assert len(kinds) == (6 if place == 2 else 4)  # only the last of reader, rates and desk imports others
        chosen[agent] = kinds["fallback" if place == 2 else "gold"]
    assert env.step({**chosen, "agent_0": ""})[1]["agent_0"] < 1
    env.reset(options={"index": 0})
    assert env.step(chosen)[1]["agent_0"] == 1.0


def test_kinds_and_schemes_of_modules_are_counted() -> None:
    env = Modules(split="train", modules=3, candidates=True)
    item, groups = env.items[0], list[Group]()
    letters = [{OF_MODULES.kind_of(item, n, a): a for a in OF_MODULES.lettered(item, n)} for n in range(3)]
    for kind in ("gold", "fallback", "alone", "off by one"):  # of the last one, which alone imports others
        texts = dict(zip(env.possible_agents, [letters[0]["gold"], letters[1]["gold"], letters[2][kind]], strict=True))
        team = Scripted(lambda agent, _, texts=texts: texts[agent])
        groups += Trajectories().play(env, team, [item.id], [0], Sampling(), 1)
    measured = env.measure(groups)
    assert measured["schemes"] == {"fallback %": 25, "decorator %": 0, "coordinator %": 25, "strategy filter %": 0}
    assert measured["candidates"]["gold %"] == pytest.approx(75)


def test_an_author_alone_chooses_module_after_module() -> None:
    team = Modules(split="train", modules=3, candidates=True)
    env = team.alone()
    assert env
    assert check_env(env, rows=2)
    item, groups = env.items[0], list[Group]()
    letters = [{OF_MODULES.kind_of(item, n, a): a for a in OF_MODULES.lettered(item, n)} for n in range(3)]
    for kinds in [("gold", "gold", "alone"), ("gold", "stub", "gold")]:
        said = [of_kind[kind] for of_kind, kind in zip(letters, kinds, strict=True)]
        env.reset(options={"index": 0})
        rewards: list[float] = []
        for place, letter in enumerate(said):
            history = env.history("agent_0")
            assert [message.text for message in history if message.role == "action"] == said[:place]
            assert env.choices("agent_0", history) == list(OF_MODULES.lettered(item, place))
            rewards.append(env.step({"agent_0": letter})[1]["agent_0"])
        team.reset(options={"index": 0})
        reward = team.step(dict(zip(team.possible_agents, said, strict=True)))[1]["agent_0"]
        assert rewards == [0, 0, reward]
        assert (reward == 1) is ("stub" not in kinds)
        player = Scripted(lambda _, history, said=said: said[len(history) // 2])
        groups += Trajectories().play(env, player, [item.id], [0], Sampling(), 1)
    measured = env.measure(groups)
    assert measured["3 modules"]["all tests %"] == 50
    assert measured["candidates"]["stub %"] == pytest.approx(100 / 6)
    assert measured["schemes"]["coordinator %"] == 0  # the program of gold and stub fails
    assert Modules(split="train", modules=3).alone() is None


def test_imports_are_as_deep_as_asked() -> None:
    assert {depth(plan) for plans in PLANS.values() for plan in plans} == {2, 3, 4, 5}
    for row in own_rows(4, 4, 1)[:3]:
        names = [re.sub(r".*/|\.py", "", path) for path, _ in unpacked(row.fields["solution"])]
        assert depth(tuple(names)) == 4
        assert imports_of(names, "report") == ["totals", "reader"]


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
    env = Modules(split="all", modules=3, deep=3, max_turns=3)
    env.reset(options={"index": 0})
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


@pytest.mark.parametrize("modules", PLANS)
def test_modules_without_a_purpose_receive_nothing(modules: int) -> None:
    for item in own_rows(modules, 0, 1)[::16]:
        sources = [source for _, source in unpacked(item.fields["solution"])]
        for body in ("raise ValueError", "return None", "return False", "return 1", "return ''", "return []"):
            empty = [ast.unparse(emptied(source, ast.parse(body).body[0])) for source in sources]
            assert received(modules, item, empty) == 0, (item.id, body)


def received(modules: int, item: TaskItem, sources: Sequence[str]) -> float:
    env = Modules([dict(item.fields, id=item.id, prompt=item.prompt)], split="all", modules=modules, max_turns=1)
    env.reset(seed=0)
    return env.step(dict(zip(env.possible_agents, sources, strict=True)))[1]["agent_0"]


def test_a_module_that_replaces_others_receives_nothing_for_them() -> None:
    item = own_rows(3, 0, 1)[0]
    reader, rates, _ = item.reference
    package = unpacked(item.fields["solution"])[0][0].partition("/")[0]
    replacing = f"from {package} import rates\n\n{reader}\nexec({rates!r}, vars(rates))\n"
    alone = received(3, item, [reader, "", ""])
    assert 0 < alone == received(3, item, [replacing, "", ""]) < 0.45


def test_every_module_contributes() -> None:
    env = Modules(split="all", modules=3)
    assert min(env.contributions(env.items[0], env.items[0].reference)) > 0.2


# --- merge ------------------------------------------------------------------------------------------------------------

BASE = "a\nb\nc\nd\n"


@pytest.mark.parametrize(
    ("first", "second", "both"),
    [
        ("A\nb\nc\nd\n", "a\nb\nc\nD\n", "A\nb\nc\nD\n"),
        ("a\nb\nc\nd\ne\n", "a\nc\nd\n", "a\nc\nd\ne\n"),
        ("a\nB\nc\nd\n", "a\nB\nc\nd\n", "a\nB\nc\nd\n"),
        ("a\nB\nc\nd\n", "a\nx\nc\nd\n", None),
        ("a\nb\nc\nd\ne\n", "a\nb\nc\nd\nf\n", None),
        ("a\nd\n", "a\nb\nC\nd\n", None),
        (BASE, "a\nb\n", "a\nb\n"),
    ],
)
def test_a_merge_takes_both_changes_or_none(first: str, second: str, both: str | None) -> None:
    assert merge.merged(BASE, first, second) == both
    assert merge.merged(BASE, second, first) == both


def test_features_are_merged_and_a_conflict_is_worth_nothing() -> None:
    env = Modules(split="all", form="merge")
    assert len({item.prompt + item.fields["first"] + item.fields["second"] for item in env.items}) == len(env.items)
    item = env.items[0]
    added = [f"{item.prompt}\n\ndef {name}(x):\n    return x\n" for name in ("one", "two")]
    for texts, reward in ((item.reference, 1.0), (added, 0.0), (["", ""], 0.0)):
        env.reset(options={"index": 0})
        _, rewards, *_ = env.step(dict(zip(env.agents, texts, strict=True)))
        assert rewards["agent_0"] == reward


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"modules": 2}, "modules is 2"),
        ({"deep": 9}, "deep is 9"),
        ({"form": "mix"}, "'mix'"),
        ({"call_cost": -1}, "-1"),
        ({"candidates": True, "messages": True}, "messages True"),
    ],
)
def test_wrong_options_are_named(options: dict[str, object], named: str) -> None:
    with pytest.raises(ValueError, match=re.escape(named)):
        Modules(**options)  # type: ignore[arg-type]
