"""Mains that only read a code are not paid for cooperation; mains that make something of the helper's one value are."""

from __future__ import annotations

import pytest
from programs import problem
from test_contribution import FORMAL, judged

WANTED = {"a b": [1, 1], "": [], "cat dog": [3, 3], "a bcd ef": [1, 3, 2], "word": [4], "one two six": [3, 3, 3]}
LENGTHS = problem(
    "def main(text):\n    pass\n", *(f"assert c({given!r}) == {want!r}" for given, want in WANTED.items())
)
WORD_LENGTHS = "[len(word) for word in text.split()]"


def helper(value: str) -> str:
    return f"def aux(text):\n    return {value.replace('ANSWER', WORD_LENGTHS)}\n"


def reader(value: str) -> str:
    return f"def main(text):\n    import ast, base64, zlib\n    said = aux(text)\n    return {value}\n"


CODES = {
    "base64": (
        "__import__('base64').b64encode(repr(ANSWER).encode())",
        "ast.literal_eval(base64.b64decode(said).decode())",
    ),
    "base32 as text": (
        "__import__('base64').b32encode(repr(ANSWER).encode()).decode()",
        "ast.literal_eval(base64.b32decode(said).decode())",
    ),
    "hex": ("repr(ANSWER).encode().hex()", "ast.literal_eval(bytes.fromhex(said).decode())"),
    "bytes": ("repr(ANSWER).encode()", "ast.literal_eval(said.decode())"),
    "compressed": (
        "__import__('zlib').compress(repr(ANSWER).encode())",
        "ast.literal_eval(zlib.decompress(said).decode())",
    ),
    "cut in three": ("[repr(ANSWER)[:2], repr(ANSWER)[2:5], repr(ANSWER)[5:]]", "ast.literal_eval(''.join(said))"),
    "a code of its own": (
        "[ord(letter) * 7 + i for i, letter in enumerate(repr(ANSWER))]",
        "ast.literal_eval(''.join(chr((n - i) // 7) for i, n in enumerate(said)))",
    ),
}
HONEST = {
    "letters to join": ("[word[::-1] for word in text.split()]", "[len(word) for word in said]"),
    "a text to split": ("' '.join(str(len(word)) for word in text.split())", "list(map(int, said.split()))"),
    "a pair of numbers in text": (
        "[f'{len(word)}/{len(text)}' for word in text.split()]",
        "[int(pair.partition('/')[0]) for pair in said]",
    ),
    "a pair to unpack": (
        "(text.split(), text.count(' '))",
        "(lambda words, gaps: [len(word) for word in words[: gaps + 1]])(*said)",
    ),
}


@pytest.mark.parametrize(("value", "read"), CODES.values(), ids=CODES)
def test_reading_a_code_is_no_cooperation(value: str, read: str) -> None:
    score = judged(helper(value), reader(read), LENGTHS)
    assert (score.diagnostics["tests_passed"], score.diagnostics["needs_main"]) == (len(WANTED), 0.0)
    assert score.total == FORMAL


@pytest.mark.parametrize(("value", "read"), HONEST.values(), ids=HONEST)
def test_making_something_of_one_value_is(value: str, read: str) -> None:
    assert judged(helper(value), reader(read), LENGTHS).total == 4.0
