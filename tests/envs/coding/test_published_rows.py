"""Rows as they are published: MBPP in its own form, CoopHumanEval with its audit, and files made for two agents."""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import datasets
import pytest
from tasks import references

import llm_dec_pomdp
from llm_dec_pomdp.envs.base import step_many
from llm_dec_pomdp.envs.coding import reward
from llm_dec_pomdp.envs.coding.base import gold_pairs
from llm_dec_pomdp.envs.coding.mbpp import MBPP, from_published
from llm_dec_pomdp.envs.coding.v1.coophumaneval import audit, audited
from llm_dec_pomdp.envs.tasks import TaskError
from llm_dec_pomdp.sandbox import cached_verdicts
from llm_dec_pomdp.types import TaskItem

# --- MBPP -------------------------------------------------------------------------------------------------------------

PLAIN = {
    "source_file": "Benchmark Questions Verification V2.ipynb",
    "task_id": 11,
    "prompt": "Write a function to add up the squares of a list.",
    "code": "def square_sum(values, start=0):\n  return start + sum(v * v for v in values)\n",
    "test_imports": [],
    "test_list": ["assert square_sum([1, 2]) == 5", "assert square_sum([], 7)==7", "assert square_sum([3]) == 9"],
}
WITH_HELPER = {
    "task_id": 12,
    "prompt": "Write a function to find the mean distance of the points to the origin.",
    "code": "import math\nfrom typing import List\n"
    "def distance(p):\n  return math.hypot(*p)\n"
    "def mean_distance(points: List[tuple]) -> float:\n  return sum(map(distance, points)) / len(points)\n",
    "test_imports": ["import math", "import cmath"],
    "test_list": [
        "assert math.isclose(mean_distance([(3, 4)]), 5.0, rel_tol=0.001)",
        "assert math.isclose(mean_distance([(3, 4), (0, abs(cmath.sqrt(-9)))]), 4.0, rel_tol=0.001)",
    ],
}
HELPER_BELOW = {
    "task_id": 13,
    "prompt": "Write a function to count the vowels.",
    "code": "def count_vowels(s):\r\n\treturn sum(is_vowel(c) for c in s)\r\n\r\n"
    "def is_vowel(c):\r\n\treturn c in 'aeiou'\r\n",
    "test_imports": [],
    "test_list": ['assert count_vowels("aeb") == 2'],
}
NESTED_CALL = {
    "task_id": 14,
    "prompt": "Write a function to find the shared elements.",
    "code": "def shared(a, b):\n  return tuple(set(a) & set(b))\n",
    "test_imports": [],
    "test_list": ["assert set(shared((3, 4), (4, 5))) == set((4,))", "assert sorted(\n  shared((1,), (2,))\n) == []"],
}
ANY_ARGUMENTS = {
    "task_id": 15,
    "prompt": "Write a function to add all arguments.",
    "code": "def add_all(first, /, *rest, scale: int = 1, **more):\n  return scale * (first + sum(rest))\n",
    "test_imports": [],
    "test_list": ["assert add_all(1, 2, 3, scale=2) == 12"],
}
QUOTES = {
    "task_id": 16,
    "prompt": 'Write a function to put a word into "quotes", as in \\d and "this"',
    "code": "def quoted(word):\n  return '\"' + word + '\"'\n",
    "test_imports": [],
    "test_list": ["assert quoted('a') == '\"a\"'"],
}
ROWS: list[dict[str, Any]] = [PLAIN, WITH_HELPER, HELPER_BELOW, NESTED_CALL, ANY_ARGUMENTS, QUOTES]
NAMES = ["square_sum", "mean_distance", "count_vowels", "shared", "add_all", "quoted"]
SIGNATURES = ["values, start=0", "points: List[tuple]", "s", "a, b", "first, /, *rest, scale: int=1, **more", "word"]

rows = pytest.mark.parametrize("row", ROWS, ids=NAMES)


def item_of(row: Mapping[str, Any]) -> TaskItem:
    converted = from_published(row)
    return TaskItem(
        converted["task_id"],
        converted["prompt"],
        fields={"test": converted["test"], "entry_point": converted["entry_point"]},
    )


def judged(row: Mapping[str, Any], aux: str, main: str) -> dict[str, float]:
    """The parts of the reward of a pair."""
    env = llm_dec_pomdp.make("mbpp-v0", tasks=[item_of(row)])
    return dict(env.score(env.items[0], {"agent_0": aux, "agent_1": main}).components)


@pytest.mark.parametrize(("row", "name", "signature"), list(zip(ROWS, NAMES, SIGNATURES, strict=True)), ids=NAMES)
def test_entry_point_and_signature_are_those_that_the_asserts_call(
    row: dict[str, Any], name: str, signature: str
) -> None:
    converted = from_published(row)
    assert converted["task_id"] == f"MBPP/{row['task_id']}"
    assert converted["entry_point"] == name
    assert converted["prompt"].startswith(f"def {name}({signature}):\n")
    assert row["prompt"] in converted["prompt"]
    shown = converted["prompt"].partition(":\n")[2]  # nothing of the solution, and no assert
    assert not any(hidden in shown for hidden in ("return", "assert", "distance(p)"))
    assert set(converted) == {"task_id", "prompt", "test", "entry_point", "split"}


@rows
def test_every_assert_is_a_test_and_counts_once(row: dict[str, Any]) -> None:
    converted = from_published(row)
    tree = ast.parse(converted["test"])
    found = [ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Assert)]
    assert found == [ast.unparse(ast.parse(line)) for line in row["test_list"]]
    [verdict] = cached_verdicts([reward.job(item_of(row), row["code"])])
    assert (verdict.passed, verdict.total) == (len(row["test_list"]),) * 2


@rows
def test_a_wrong_program_fails(row: dict[str, Any]) -> None:
    converted = from_published(row)
    wrong = f"def {converted['entry_point']}(*a, **k):\n    return aux(a)\n"
    parts = judged(row, "def aux(x):\n    return object()\n", wrong)
    assert parts["tests"] == 0.0


def test_helpers_and_imports_of_the_solution_are_not_in_scope_of_the_program() -> None:
    main = "def mean_distance(points):\n    return sum(distance(p) for p in points) / len(points)\n"
    assert judged(WITH_HELPER, "def aux(p):\n    return p\n", main)["tests"] == 0.0


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"code": "class A:\n    pass\n"}, "none"),
        ({"code": "square = lambda v: v\n"}, "none"),
        ({"code": "def other():\n  pass\n"}, "other"),
        ({"prompt": ""}, "'prompt'"),
    ],
)
def test_a_row_that_gives_no_problem_is_named(changes: dict[str, str], named: str) -> None:
    """Asserts have to call one of its functions."""
    with pytest.raises(TaskError, match=f"MBPP row 11: .*{named}"):
        from_published({name: value for name, value in {**PLAIN, **changes}.items() if value != ""})


def test_a_row_of_the_whole_data_set_is_read() -> None:
    """Its sentence has another name, and its asserts may need a program before them."""
    row = {
        "task_id": 601,
        "text": "Write a function to add up pairs.",
        "code": "def total(pairs):\n    return sum(p.a + p.b for p in pairs)\n",
        "test_setup_code": "class Pair:\n    def __init__(self, a, b):\n        self.a, self.b = a, b",
        "test_list": ["assert total([Pair(1, 2), Pair(3, 4)]) == 10"],
        "challenge_test_list": [],
    }
    [item] = llm_dec_pomdp.make("mbpp-v0", tasks=[row], split="all").items
    assert row["text"] in item.prompt
    [verdict] = cached_verdicts([reward.job(item, row["code"])])
    assert (verdict.passed, verdict.total) == (1, 1)


def test_a_row_that_has_our_fields_stays_as_it_is() -> None:
    row = from_published(PLAIN)
    assert from_published(row) == row


def test_the_split_of_the_row_is_kept() -> None:
    assert [from_published({**PLAIN, "split": split})["split"] for split in ("train", "test")] == ["train", "test"]
    assert from_published(PLAIN)["split"] == ""


def test_the_published_data_set_is_asked_for_and_converted(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[Any, ...]] = []

    def load(name: str, config: str | None, split: str, *, trust_remote_code: bool) -> datasets.Dataset:
        assert not trust_remote_code
        asked.append((name, config, split))
        return datasets.Dataset.from_list(
            [{**row, "source_file": ""} for row in (ROWS[:4] if split == "train" else ROWS[4:])]
        )

    monkeypatch.setattr(datasets, "load_dataset", load)
    env = llm_dec_pomdp.make("mbpp-v0", tasks="hub", split="all")
    assert asked == [("google-research-datasets/mbpp", "sanitized", split) for split in ("train", "test")]
    assert [item.id for item in env.items] == [f"MBPP/{number}" for number in range(11, 17)]
    assert [item.split for item in env.items] == ["train"] * 4 + ["test"] * 2
    observations, _ = env.reset(options={"task_id": "MBPP/12"})
    assert all("mean_distance(points: List[tuple])" in observation for observation in observations.values())


# --- files made for two agents ----------------------------------------------------------------------------------------


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_mbpp_for_two_is_read_from_its_file(shared_data: Path) -> None:
    path = shared_data / "data" / "mbpp_collab.jsonl"
    published = read(path)
    env = llm_dec_pomdp.make("mbpp-v0", tasks=str(path), split="all")
    assert len(env.items) == len(published) == 257
    assert [(item.id, item.prompt, dict(item.fields)) for item in env.items] == [
        (row["task_id"], row["prompt"], {"test": row["test"], "entry_point": row["entry_point"]}) for row in published
    ]


def test_mbpp_for_two_can_be_played(shared_data: Path) -> None:
    env = llm_dec_pomdp.make("mbpp-v0", tasks=shared_data / "data" / "mbpp_collab.jsonl")
    observations, _ = env.reset(options={"task_id": "MBPP/0"})
    assert all("remove_Occ(s,ch)" in observation for observation in observations.values())
    aux = "def aux(s, ch):\n    i = s.find(ch)\n    return s if i < 0 else s[:i] + s[i + 1 :]\n"
    main = "def remove_Occ(s, ch):\n    return aux(aux(s, ch)[::-1], ch)[::-1]\n"
    assert env.step({"agent_0": aux, "agent_1": main})[1] == dict.fromkeys(env.possible_agents, 4.0)


# --- CoopHumanEval and its audit --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def coop(shared_data: Path) -> Path:
    return shared_data / "data" / "coophumaneval.jsonl"


@pytest.fixture(scope="module")
def published(coop: Path) -> dict[str, TaskItem]:
    return {item.id: item for item in llm_dec_pomdp.make("coophumaneval-v0", tasks=coop, split="all").items}


def asserts(item: TaskItem) -> list[str]:
    """The asserts of a row in order, in one normal form."""
    nodes = [node for node in ast.walk(ast.parse(item.fields["test"])) if isinstance(node, ast.Assert)]
    return [ast.unparse(node) for node in sorted(nodes, key=lambda node: node.lineno)]


def listed(kind: str, task_id: str) -> set[str]:
    return {ast.unparse(ast.parse(entry["assert"])) for entry in audit()[kind] if entry["id"] == task_id}


def test_contradicting_rows_are_left_out_and_nothing_else(coop: Path, published: dict[str, TaskItem]) -> None:
    env = llm_dec_pomdp.make("coophumaneval-v1", tasks=coop, split="all")
    kept = [item.id for item in env.items]
    assert (len(published), len(kept)) == (82, 75)
    assert kept == [task_id for task_id in published if task_id not in audited("contradicting")]


def test_ambiguous_rows_are_kept_and_flagged(coop: Path) -> None:
    env = llm_dec_pomdp.make("coophumaneval-v1", tasks=coop, split="all")
    assert env.ambiguous == audited("ambiguous")
    assert env.ambiguous <= {item.id for item in env.items}
    assert env.ambiguous
    train, test = (llm_dec_pomdp.make("coophumaneval-v1", tasks=coop, split=split) for split in ("train", "test"))
    assert not train.ambiguous & test.ambiguous
    assert train.ambiguous | test.ambiguous == env.ambiguous


def test_rows_keep_their_texts_and_get_a_pair(coop: Path, published: dict[str, TaskItem]) -> None:
    assert set(gold_pairs("coophumaneval")) == set(published)
    for item in llm_dec_pomdp.make("coophumaneval-v1", tasks=coop, split="all").items:
        assert (item.prompt, item.fields) == (published[item.id].prompt, published[item.id].fields)
        assert published[item.id].reference == ()
        assert item.reference == gold_pairs("coophumaneval")[item.id]
        assert len(item.reference) == 2


@pytest.mark.parametrize("kind", ["contradicting", "ambiguous"])
def test_every_finding_names_an_assert_of_its_row_and_a_reason(kind: str, published: dict[str, TaskItem]) -> None:
    for entry in audit()[kind]:
        assert ast.unparse(ast.parse(entry["assert"])) in asserts(published[entry["id"]]), entry
        assert len(entry["reason"]) > 40
        assert kind == "ambiguous" or entry["contradicts"] in ("text", "example", "assert")
    assert len({(entry["id"], entry["assert"]) for entry in audit()[kind]}) == len(audit()[kind])
    assert not audited("contradicting") & audited("ambiguous")


@pytest.mark.parametrize("task_id", sorted(audited("contradicting")))
def test_the_pair_of_a_contradicting_row_fails_the_listed_asserts_alone(
    task_id: str, published: dict[str, TaskItem]
) -> None:
    item = published[task_id]
    program = reward.Program.find(*gold_pairs("coophumaneval")[task_id], item.fields["entry_point"])
    [verdict] = cached_verdicts([reward.job(item, program.source)])
    lines = asserts(item)
    assert len(verdict.cases) == verdict.total == len(lines)
    failed = {line for line, passed in zip(lines, verdict.cases, strict=True) if not passed}
    assert failed == listed("contradicting", task_id)
    assert failed


@pytest.mark.slow
def test_every_pair_of_the_remaining_rows_earns_the_maximum(coop: Path) -> None:
    env = llm_dec_pomdp.make("coophumaneval-v1", tasks=coop, split="all")
    copies = [env.fork() for _ in env.items]
    for copy, item in zip(copies, env.items, strict=True):
        copy.reset(options={"task_id": item.id})
    results = step_many(copies, [references(env, item) for item in env.items])
    totals = {item.id: result[1]["agent_0"] for item, result in zip(env.items, results, strict=True)}
    assert {
        task_id: total for task_id, total in totals.items() if total != pytest.approx(MBPP.declared.max_return)
    } == {}
