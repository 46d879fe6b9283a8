"""Traces as one self-contained HTML page: a lane for each agent, arrows for messages, texts on a click.

The page never executes the content of traces. Texts, names and ids become text nodes only. The traces are stored
compressed and in base64. The Content-Security-Policy of the page allows only its own script, and no requests.
"""

from __future__ import annotations

import base64
import functools
import gzip
import hashlib
import json
import math
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from importlib.resources import files
from itertools import islice
from typing import Any, cast

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from ...printable import escape_controls

_SCRIPTS = ("model", "difference", "lanes", "strip", "detail", "pane", "viewer")
_STYLES = ("palette", "viewer")
_SHORT = 40  # characters; longer texts are stored once, even if several traces contain them
_MOST = 64_000_000  # maximum size of the traces in a page, in bytes


def render(traces: Sequence[Mapping[str, Any]]) -> str:
    """Return the page of some traces.

    Args:
        traces: Traces of the published schema. A reader of the page chooses one of them, or two to compare.

    Raises:
        ValueError: There is no trace, or they are too large for a page.
    """
    if not traces:
        raise ValueError("there is no trace to show; give a file with at least one trace")
    packed = Packed(("task", "trace"), _MOST)
    repeated: Counter[str] = Counter()
    for trace in traces:
        name = str(trace["trace_id"])
        repeated[name] += 1
        label = name if repeated[name] == 1 else f"{name} ({repeated[name]})"
        if not packed.add((str(trace["task_id"]), label), trace):
            raise ValueError(
                f"the page of {len(traces)} traces exceeds {_MOST // 1_000_000} MB at trace {label!r:.80}; give fewer"
            )
    alone = len(traces) == 1
    title = str(traces[0]["trace_id"]) if alone else f"{len(traces)} traces"
    events = sum(len(trace["events"]) for trace in traces)
    return page_of(packed, title, f"task {traces[0]['task_id']}" if alone else f"{events:,} events")


def page_of(packed: Packed, title: str, about: str, *, live: bool = False) -> str:
    """Return the page of some packed traces.

    Args:
        packed: The traces that a reader can choose.
        title: Heading of the page.
        about: A line below the heading.
        live: Whether the page polls its server, at the path `state`, for new episodes.
    """
    style, script = viewer_style("alone"), viewer_script(*(["live"] if live else []))
    loader = PackageLoader("llm_dec_pomdp.report.viewer", "templates")
    page = Environment(loader=loader, autoescape=True, undefined=StrictUndefined).get_template("trace.html.j2")
    rules = policy(style, script) + ("; connect-src 'self'" if live else "")
    return escape_controls(
        page.render(title=title, about=about, policy=rules, style=style, script=script, traces=packed.text())
    )


# --- parts of every page with the viewer ------------------------------------------------------------------------------


@functools.cache
def _text(name: str) -> str:
    return (files("llm_dec_pomdp.report.viewer") / "templates" / name).read_text(encoding="utf-8")


def viewer_style(*further: str) -> Markup:
    """Return the style sheet of the viewer, extended by further ones of its folder."""
    return Markup("".join(_text(f"{name}.css") for name in (*_STYLES, *further)))


def viewer_script(*further: str) -> Markup:
    """Return the script of the viewer, which shows the traces of the element `traces` in the element `viewer`."""
    return Markup('"use strict";\n' + "".join(_text(f"{name}.js") for name in (*_SCRIPTS, *further)))


def policy(style: str, script: str) -> str:
    """Return the Content-Security-Policy that allows a page only this style sheet and this script."""
    hashed = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in (style, script)]
    return (
        f"default-src 'none'; style-src 'sha256-{hashed[0]}'; script-src 'sha256-{hashed[1]}'; base-uri 'none'; "
        "form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
    )


class Packed:
    """Compressed traces for a page, up to a limit of size.

    Args:
        fields: Names of the fields by which a reader chooses a trace.
        most: Limit in bytes.

    Attributes:
        size: Upper bound of the current size in bytes.
    """

    def __init__(self, fields: Sequence[str], most: int) -> None:
        self._fields, self._most, self.size = fields, most, 0
        self._labels: list[list[str]] = []
        self._traces: list[Any] = []
        self._texts: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._traces)

    def add(self, labels: Sequence[str], trace: Mapping[str, Any]) -> bool:
        """Add a trace.

        Args:
            labels: A value for each field.
            trace: A trace of the published schema.

        Returns:
            Whether the trace was added; False if it exceeds the limit.
        """
        known = len(self._texts)
        value = _shared(trace, self._texts)
        new = list(islice(reversed(self._texts), len(self._texts) - known))
        size = self.size + len(base64.b64encode(zlib.compress(_json([labels, value, new]), 1)))
        if size > self._most:
            for text in new:
                del self._texts[text]
            return False
        self.size = size
        self._labels.append([escape_controls(label) for label in labels])
        self._traces.append(value)
        return True

    def text(self) -> str:
        """Return the content of the element `traces`: compressed JSON in base64."""
        page = {"fields": self._fields, "choices": self._labels, "traces": self._traces, "texts": list(self._texts)}
        return base64.b64encode(gzip.compress(_json(page), mtime=0)).decode()


def _json(value: Any) -> bytes:
    return json.dumps(value, allow_nan=False, separators=(",", ":")).encode()


def _shared(value: Any, texts: dict[str, int]) -> Any:
    """Return a value for the page, with control characters escaped and null for numbers that are not finite.

    A long text is added to `texts` and replaced by U+0001 and its number there. Escaped texts never contain U+0001.
    """
    if isinstance(value, Mapping):
        items = cast("Mapping[Any, Any]", value).items()
        return {escape_controls(str(name)): _shared(item, texts) for name, item in items}
    if isinstance(value, (list, tuple)):
        return [_shared(item, texts) for item in cast("Sequence[Any]", value)]
    if isinstance(value, str):
        text = escape_controls(value)
        return f"\x01{texts.setdefault(text, len(texts))}" if len(text) > _SHORT else text
    return None if isinstance(value, float) and not math.isfinite(value) else value
