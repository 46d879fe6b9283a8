"""merge-v0: two features of one module, merged by lines."""

from __future__ import annotations

import pytest

from llm_dec_pomdp.contrib.software.merge import Merge, merged

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
    assert merged(BASE, first, second) == both
    assert merged(BASE, second, first) == both


def test_features_are_merged_and_a_conflict_is_worth_nothing() -> None:
    env = Merge(split="all")
    assert len({item.prompt + item.fields["first"] + item.fields["second"] for item in env.items}) == len(env.items)
    item = env.items[0]
    added = [f"{item.prompt}\n\ndef {name}(x):\n    return x\n" for name in ("one", "two")]
    for texts, reward in ((item.reference, 1.0), (added, 0.0), (["", ""], 0.0)):
        env.reset(options={"index": 0})
        _, rewards, *_ = env.step(dict(zip(env.agents, texts, strict=True)))
        assert rewards["agent_0"] == reward
