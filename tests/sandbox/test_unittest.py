"""unittest on programs of several files: one verdict for each test, objects that stay where the program runs."""

from __future__ import annotations

import datetime
import weakref
from collections import deque
from typing import Any, cast

import pytest
from judging import QUICK

from llm_dec_pomdp.sandbox import Job, SandboxPool, Verdict, codec
from llm_dec_pomdp.sandbox.guest_objects import Objects
from llm_dec_pomdp.sandbox.proxies import World

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

    def itself(self):
        return {"in": [self]}

    def kind(self):
        return Shelf
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


def test_an_object_is_one_thing_however_tests_come_by_it(pool: SandboxPool) -> None:
    verdict = judged(
        pool,
        "self.assertIs(s.add('x', []), s)\nself.assertIs(s.itself()['in'][0], s)\nself.assertIs(desk.shelf, s)",
        "t = s.twin()\nself.assertIsNot(t, s)\nt.owner = s\nself.assertEqual(id(t.owner), id(s))",
        "import town.shelf\nself.assertIs(town.shelf.Shelf, s.kind())\nself.assertIs(town.desk, desk)",
    )
    assert verdict.cases == (True, True, True), verdict.notes


def test_what_tests_import_is_one_thing_also_in_the_next_process(pool: SandboxPool) -> None:
    tests = """
import unittest
from town import desk
from town.shelf import Shelf
class T(unittest.TestCase):
    def test_0(self):
        self.left = desk.shelf.itself
        left = desk.shelf.books
        left.append(Shelf())
        desk.shelf.leave()
    def test_1(self):
        self.assertIs(desk.shelf.kind(), Shelf)
        self.assertEqual(desk.shelf.books, [])
"""
    [verdict] = pool.run([Job("", tests, "", modules=PACKAGE, limits=QUICK)])
    assert verdict.cases == (False, True), verdict.notes


def test_objects_that_tests_no_longer_hold_are_not_kept() -> None:
    class Near:
        """The program in this process."""

        starts, keep, kept = 1, None, None

        def __init__(self) -> None:
            self.objects = Objects()

        def ready(self) -> None: ...

        def ask(self, message: tuple[Any, ...]) -> Any:
            what = codec.decode(codec.encode(message, keep=self.keep), kept=self.objects.kept)
            return codec.decode(codec.encode(self.objects.do(*what), keep=self.objects.keep), kept=self.kept)

    world = World(cast("Any", Near()), frozenset())
    made = world.imported("unittest.mock", fromlist=("Mock",)).Mock()
    inner = made.one
    assert made.one is inner
    gone = weakref.ref(inner)
    del inner
    assert gone() is None
    assert made.one is made.one


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
