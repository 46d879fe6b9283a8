"""Procedural worlds, their questions, and the names and facts in texts."""

from __future__ import annotations

from collections import Counter

import bm25s
import numpy as np
import pytest

from llm_dec_pomdp.contrib.research import scoring
from llm_dec_pomdp.contrib.research.questions import (
    COMPARISONS,
    embedded,
    facts_of,
    truth_of_steps,
    world_of,
)
from llm_dec_pomdp.contrib.research.worlds import RELATIONS, SKILLS, worlds
from llm_dec_pomdp.envs.tools.search import Index
from llm_dec_pomdp.envs.tools.sql import Database


def test_no_two_worlds_share_a_name() -> None:
    """This makes the worlds of training and test questions disjoint, too."""
    names = [name for of in worlds().values() for listed in of.names.values() for name in listed]
    assert len(set(names)) == len(names)


@pytest.mark.slow
def test_every_fact_is_either_said_or_in_a_table_and_contradicted_by_rumours_alone() -> None:
    of = worlds()[2]
    database = Database(of.script, writable=False)
    for fact in of.facts.values():
        relation = RELATIONS[fact.relation]
        if not relation.sentences:
            assert database.query((), relation.select(*fact.subjects))[1].split("\n")[1:] == [fact.value]
            continue
        assert fact.sentence in of.texts
        others = set(of.names[relation.value]) - {fact.value}
        lies = {s.format(x=fact.subjects[0], y=other) for s in relation.sentences for other in others}
        assert not lies & set(of.texts)


def test_the_questions_of_training_and_tests_are_about_different_worlds() -> None:
    splits = ("train", "test")
    by_split = {split: {world_of(item).number for item in embedded() if item.split == split} for split in splits}
    assert not by_split["train"] & by_split["test"]
    assert len({item.prompt for item in embedded()}) == len(embedded()) == 180


def test_a_question_needs_one_to_six_invocations_of_every_skill() -> None:
    needed = Counter(len(facts_of(item)) for item in embedded() if item.split == "test")
    assert needed == {1: 6, 2: 18, 3: 18, 4: 6, 5: 6, 6: 6}
    skills = Counter(RELATIONS[fact.relation].skill for item in embedded() for fact in facts_of(item))
    assert set(skills) == set(SKILLS) and min(skills.values()) > 50


def test_steps_lead_to_the_one_right_answer() -> None:
    for item in embedded():
        *_, last = truth_of_steps(item)
        assert last.value == item.fields["answer"] != "0"
        if last.step.relation in COMPARISONS:
            values = [truth_of_steps(item)[int(place[1:]) - 1] for place in last.step.subjects]
            best = COMPARISONS[last.step.relation](values, key=lambda known: int(known.value or 0))
            assert best.subjects == (last.value,) and len({known.value for known in values}) == 2
        else:
            assert f" {last.value} " not in item.prompt.replace("?", " ")


@pytest.mark.slow
def test_the_five_best_passages_hold_the_fact_of_every_step_that_texts_tell() -> None:
    for item in embedded():
        texts = world_of(item).texts
        index = Index(texts)
        for fact in (fact for fact in facts_of(item) if fact.sentence):
            question = RELATIONS[fact.relation].question.format(x=fact.subjects[0])
            assert fact.sentence in [texts[place] for place in index.best(question, 5)]


@pytest.mark.slow
def test_what_falsifies_a_fact_changes_it() -> None:
    of = worlds()[2]
    for fact in (fact for fact in of.facts.values() if RELATIONS[fact.relation].table):
        relation = RELATIONS[fact.relation]
        script = f"{of.script}\n{relation.falsify(*fact.subjects)}"
        answers = [Database(text, False).query((), relation.select(*fact.subjects)) for text in (of.script, script)]
        assert answers[0] != answers[1]


def test_a_search_gives_what_bm25s_gives_with_ties_in_the_order_of_the_corpus() -> None:
    texts = worlds()[2].texts
    index, bare = Index(texts), bm25s.BM25()
    bare.index(bm25s.tokenize(list(texts), show_progress=False), show_progress=False)
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
    assert Index(["the", "of"]).best("letters", 5) == ()


def test_a_statement_that_fails_for_another_fact_alone_depends_on_it() -> None:
    """An SQL statement of an agent does not raise an error when a report is scored."""
    statement = "SELECT abs(CASE a WHEN 1 THEN 1 ELSE -9223372036854775807 - 1 END) FROM t"
    script = "CREATE TABLE t (a); INSERT INTO t VALUES (1);"
    assert scoring._depends(script, "UPDATE t SET a = 2;", statement)  # pyright: ignore[reportPrivateUsage]
    assert not scoring._depends(script, "UPDATE t SET a = 1;", statement)  # pyright: ignore[reportPrivateUsage]
