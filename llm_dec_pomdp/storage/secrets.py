"""Keys of servers, which no file may hold: whatever is stored, and whatever a server answers, passes `masked`.

A server may repeat its key in a text or an error. What is known here are keys that somebody gave to this process, by
`keep_secret` or in a variable. A key in another form (its halves, base64) is not found.
"""

from __future__ import annotations

import functools
import html
import json
import os

MASK = b"[key]"
VARIABLES = ("OPENAI_API_KEY", "LLM_DEC_POMDP_TOKEN")
_SHORTEST = 8  # characters; a shorter one, such as EMPTY, is no secret, and a word of other texts
_given: set[str] = set()


def keep_secret(secret: str | None) -> None:
    """Let a key be masked from now on."""
    if secret:
        _given.add(secret)


def masked(content: bytes) -> bytes:
    """The same bytes with `MASK` in the place of every secret, as it is and as JSON and HTML write it."""
    known = {*_given, *(os.environ.get(name, "") for name in VARIABLES)}
    for secret in sorted(known, key=len, reverse=True):  # one may be a part of another
        if len(secret) >= _SHORTEST:
            for form in _forms(secret):
                content = content.replace(form, MASK)
    return content


@functools.lru_cache
def _forms(secret: str) -> tuple[bytes, ...]:
    as_json = json.dumps(secret)[1:-1]
    forms = (as_json.replace("/", "\\/"), as_json, html.escape(secret), secret)
    return tuple(dict.fromkeys(form.encode("utf-8", "surrogateescape") for form in forms))
