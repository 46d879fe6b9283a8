"""HTML pages as tests read them."""

from __future__ import annotations

import base64
import gzip
import json
from html.parser import HTMLParser
from typing import Any


class Parsed(HTMLParser):
    """Checks that elements close in order, and collects what the page refers to and shows."""

    VOID = {"meta", "input", "br", "link", "img"}

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.references: list[str] = []
        self.seen: list[str] = []
        self.rows: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        named = [str(value) for name, value in attrs if name in ("src", "href", "xlink:href")]
        self.references += [value for value in named if not value.startswith("#")]  # not to a part of the page itself
        if tag == "tr":
            self.rows.append("")
        if tag not in self.VOID and not (self.get_starttag_text() or "").endswith("/>"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)

    def handle_data(self, data: str) -> None:
        if "tr" in self.open:
            self.rows[-1] += data


def packed(text: str) -> dict[str, Any]:
    """The traces in a page: `fields`, `choices`, `traces`, and `texts` by their number."""
    return json.loads(gzip.decompress(base64.b64decode(text.partition('id="traces">')[2].partition("</script>")[0])))


def written(value: Any, texts: list[str]) -> Any:
    """A value of `packed` with its texts in it."""
    if isinstance(value, dict):
        return {name: written(item, texts) for name, item in value.items()}
    if isinstance(value, list):
        return [written(item, texts) for item in value]
    return texts[int(value[1:])] if isinstance(value, str) and value.startswith("\x01") else value
