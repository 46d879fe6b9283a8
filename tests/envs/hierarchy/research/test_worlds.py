"""Worlds, their questions, and what is found in them."""

from __future__ import annotations

import bm25s
import numpy as np
import pytest

from llm_dec_pomdp.envs.hierarchy.research.corpus import corpus
from llm_dec_pomdp.envs.hierarchy.research.questions import WORLDS, embedded, facts_of, hops_of
from llm_dec_pomdp.envs.hierarchy.research.worlds import RELATIONS, RUMOURS, most_worlds, world
from llm_dec_pomdp.envs.tools.search import Index
from llm_dec_pomdp.types import TaskItem

USED = [number for numbers in WORLDS.values() for number in numbers]


def world_of(item: TaskItem) -> int:
    return int(item.fields["corpus"].removeprefix("world:"))


def test_a_world_has_about_350_sentences_some_of_them_rumours() -> None:
    for number in USED:
        texts = [passage.text for passage in world(number).passages]
        assert 330 <= len(texts) <= 380
        assert 10 <= sum(text.startswith(RUMOURS) for text in texts) <= 14
        assert len(set(texts)) == len(texts)


def test_no_two_worlds_share_a_name() -> None:
    """So the worlds of training and of tests are disjoint, too."""
    names = [
        name
        for number in range(most_worlds())
        for kind, own in world(number).names.items()
        if kind != "years"
        for name in own
    ]
    assert len(set(names)) == len(names)


def test_every_fact_is_said_where_it_says_and_contradicted_by_rumours_alone() -> None:
    of = world(USED[0])
    for fact in of.facts.values():
        relation = RELATIONS[fact.relation]
        [place] = fact.passages
        assert of.passages[place].text in [s.format(x=fact.subject, y=fact.value) for s in relation.sentences]
        others = set(of.names[relation.value]) - {fact.value}
        lies = {s.format(x=fact.subject, y=other) for s in relation.sentences for other in others}
        assert not lies & {passage.text for passage in of.passages}


def test_the_questions_of_training_and_tests_are_about_different_worlds() -> None:
    by_split = {split: {world_of(item) for item in embedded() if item.split == split} for split in WORLDS}
    assert by_split == {split: set(numbers) for split, numbers in WORLDS.items()}
    assert not by_split["train"] & by_split["test"]
    assert len({item.prompt for item in embedded()}) == len(embedded()) == 180


def test_a_question_has_two_or_three_steps_that_lead_to_its_answer() -> None:
    lengths = set()
    for item in embedded():
        facts = facts_of(item, world(world_of(item)))
        lengths.add(len(facts))
        if "earlier" in item.prompt:
            assert item.fields["answer"] == min(facts, key=lambda fact: int(fact.value)).subject
        else:
            assert item.fields["answer"] == facts[-1].value
            assert facts[-1].value not in item.prompt
    assert lengths == {2, 3}


def test_the_two_best_passages_hold_the_fact_of_every_step() -> None:
    for item in embedded():
        for hop, fact in zip(hops_of(item), facts_of(item, world(world_of(item))), strict=True):
            assert fact.passages[0] in corpus(item.fields["corpus"]).search(hop.question(fact.subject), 2, ())


def test_a_search_gives_what_bm25s_gives_with_ties_in_the_order_of_the_corpus() -> None:
    texts = [passage.text for passage in world(USED[0]).passages]
    index, bare = Index(texts), bm25s.BM25()
    bare.index(bm25s.tokenize(texts, show_progress=False), show_progress=False)
    for item in embedded()[:20]:
        [tokens] = bm25s.tokenize(item.prompt, return_ids=False, show_progress=False)
        scores = bare.get_scores(tokens)
        wanted = sorted(np.flatnonzero(scores > 0), key=lambda place: (-scores[place], place))[:5]
        assert index.best(item.prompt, 5) == tuple(wanted)


@pytest.mark.parametrize("query", ["", "the of and", "?!", "qqqq zzzz", "\ud800", "a b c"])
def test_a_query_without_known_words_finds_nothing(query: str) -> None:
    assert Index(["Ada wrote it.", "Bo read it."]).best(query, 5) == ()


def test_a_search_finds_no_more_than_there_is() -> None:
    index = Index(["Ada wrote letters.", "Bo read letters.", "Nobody came."])
    assert index.best("letters", 5) == (0, 1)
    assert index.best("letters", 1) == (0,)
    assert index.best("letters", 5, np.array([False, True, True])) == (1,)
    assert Index(["the", "of"]).best("letters", 5) == ()
