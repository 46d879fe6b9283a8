"""unittest on programs of several files: one verdict for each test, objects that stay where the program runs."""

from __future__ import annotations

import datetime
from collections import deque

import pytest
from judging import QUICK

from llm_dec_pomdp.sandbox import Job, SandboxPool, Verdict, codec

PROGRAM = """
class Shelf:
    def __init__(self):
        self.books = []

    def add(self, title, tags):
        tags.sort()
        self.books.append({"title": title, "tags": tags})
        return self

    def loop(self):
        while True:
            pass

    def leave(self):
        import os
        os._exit(0)

    def twin(self):
        return Shelf()
"""
PACKAGE = (("town/shelf.py", PROGRAM), ("town/desk.py", "from town.shelf import Shelf\nshelf = Shelf()\n"))


def judged(pool: SandboxPool, *tests: str, files: tuple[tuple[str, str], ...] = PACKAGE) -> Verdict:
    lines = ["import unittest", "class T(unittest.TestCase):"]
    for number, test in enumerate(tests):
        lines += [f"    def test_{number}(self):", "        from town import desk", "        s = desk.shelf"]
        lines += [f"        {line}" for line in test.splitlines()]
    [verdict] = pool.run([Job("", "\n".join(lines), "", modules=files, limits=QUICK)])
    return verdict


def test_a_test_is_worth_one_and_has_its_name(pool: SandboxPool) -> None:
    verdict = judged(pool, "self.assertEqual(s.books, [])", "self.assertEqual(s.books, [1])", "s.none")
    assert (verdict.outcome, verdict.passed, verdict.total) == ("failed", 1, 3)
    assert verdict.tests == ("T.test_0", "T.test_1", "T.test_2")
    assert verdict.cases == (True, False, False)
    assert verdict.notes[1].startswith("T.test_2: AttributeError")


def test_arguments_and_fields_change_as_in_one_process(pool: SandboxPool) -> None:
    verdict = judged(
        pool,
        "tags = ['b', 'a']\ns.add('Emma', tags)\nself.assertEqual(tags, ['a', 'b'])",
        "s.books.append({'title': 'Dune'})\nself.assertEqual([b['title'] for b in s.books], ['Emma', 'Dune'])",
        "self.assertIs(type(s.books), list)\nself.assertEqual(s.add('x', []), s)",
    )
    assert verdict.outcome == "passed", verdict.notes


def test_an_object_equals_itself_alone(pool: SandboxPool) -> None:
    verdict = judged(pool, "self.assertEqual(s.twin(), s.twin())", "self.assertNotEqual(s, 5)\nself.assertIn(s, [s])")
    assert verdict.cases == (False, True)


def test_after_an_end_the_next_test_has_a_new_process(pool: SandboxPool) -> None:
    verdict = judged(pool, "s.leave()", "s.loop()", "self.assertEqual(s.books, [])")
    assert verdict.cases == (False, False, True)


@pytest.mark.parametrize("broken", ["def (", "import town.desk as desk\n1 / 0\n"])
def test_a_module_that_does_not_load_fails_those_that_need_it(pool: SandboxPool, broken: str) -> None:
    files = (("town/shelf.py", broken), PACKAGE[1], ("alone.py", "x = 5"))
    verdict = judged(pool, "pass", files=files)
    assert (verdict.outcome, verdict.cases) == ("failed", (False,))


def test_objects_travel_by_number_where_they_may() -> None:
    thing = object()
    value = {"at": datetime.datetime(2024, 2, 3, 4), "q": deque([1], 3), "kind": int, "thing": thing}
    body = codec.encode(value, keep=lambda kept: 7 if kept is thing else -1)
    assert codec.decode(body, kept=str) == {**value, "thing": "7"}
    with pytest.raises(codec.CodecError):
        codec.decode(body)


def test_a_call_of_a_method_gets_it_before_its_arguments_are_computed(pool: SandboxPool) -> None:
    """Where that makes no difference, both are one question to the program."""
    verdict = judged(
        pool,
        "with self.assertRaises(AttributeError):\n    s.none(s.leave())",
        "with self.assertRaises(AttributeError):\n    s.none('x')",
        "s.books = 3\nwith self.assertRaises(TypeError):\n    s.books(1)",
    )
    assert verdict.cases == (True, True, True)
