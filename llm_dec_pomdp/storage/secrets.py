"""Masking of server keys: `masked` filters everything that is stored and every answer of a server.

A server may repeat its key in a text or an error. The known keys are those in environment variables and those passed
to `keep_secret`. A key in another form (split in two, base64) is not found.
"""

from __future__ import annotations

import functools
import html
import json
import os

MASK = b"[key]"
VARIABLES = ("OPENAI_API_KEY", "LLM_DEC_POMDP_TOKEN")
_SHORTEST = 8  # characters; shorter keys, such as EMPTY, are not secret and may be ordinary words
_given: set[str] = set()


def keep_secret(secret: str | None) -> None:
    """Add a key to those that `masked` replaces."""
    if secret:
        _given.add(secret)


def masked(content: bytes) -> bytes:
    """Return the bytes with `MASK` in place of every secret, also in its JSON and HTML form."""
    known = {*_given, *(os.environ.get(name, "") for name in VARIABLES)}
    for secret in sorted(known, key=len, reverse=True):  # one key may be part of another key
        if len(secret) >= _SHORTEST:
            for form in _forms(secret):
                content = content.replace(form, MASK)
    return content


@functools.lru_cache
def _forms(secret: str) -> tuple[bytes, ...]:
    as_json = json.dumps(secret)[1:-1]
    forms = (as_json.replace("/", "\\/"), as_json, html.escape(secret), secret)
    return tuple(dict.fromkeys(form.encode("utf-8", "surrogateescape") for form in forms))
