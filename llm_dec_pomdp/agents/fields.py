"""Fields of a request that a server refuses or wants besides ours: renamed, left out or added, for a whole run."""

from __future__ import annotations

import json
import logging
import re
import threading
from collections.abc import Mapping
from typing import Any, cast

from ..http import WireError

_log = logging.getLogger(__name__)
_lock = threading.Lock()

# Fields that the client may rename or leave out, in this order where a server names several of them, and the effect.
_LEFT_OUT = {
    "max_tokens": "the token limit is sent as max_completion_tokens, which also counts the tokens of thoughts",
    "top_k": "it is left out, and the server's own top_k applies",
    "top_p": "it is left out, and the server's own top_p applies",
    "seed": "it is left out, and the same seed gives other texts each time",
    "stop": "it is left out, and texts are cut at these strings when they arrive",
    "temperature": "it is left out, and the server's own temperature applies",
}
_RENAMED = {"max_tokens": "max_completion_tokens"}
_OPTIONS = {
    "max_tokens": "max_new_tokens",
    "max_completion_tokens": "max_new_tokens",
}  # names of ours, where they differ
_OURS = ("messages", "model", "n", "stream")  # fields that extra_body must not set, and the remedy is elsewhere
_WORDS = ("messages", "model", "n", "seed", "stop")  # fields that a sentence may hold as words
_INVALID = (400, 422)  # statuses for a request that the server refuses as it is
_UNSUPPORTED = re.compile(
    r"unsupported|not (be )?support|unrecogni[sz]ed|unknown|unexpected|extra[ _](inputs|fields?|forbidden)"
    r"|not permitted|not allowed|cannot both|deprecated",
    re.IGNORECASE,
)


def checked_extra_body(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return fields for every request to a server.

    Args:
        fields: By name; None leaves a field of ours out.

    Raises:
        ValueError: A field that the client itself must set, or a value that JSON cannot hold.
    """
    for name, value in fields.items():
        if name in _OURS:
            raise ValueError(f"extra_body sets {name!r}, which the client sets for each request; leave it out")
        try:
            json.dumps(value, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise ValueError(f"extra_body.{name} is {value!r:.80}, which JSON cannot hold ({error})") from None
    return dict(fields)


class Fields:
    """The fields of requests to one server, which learns from its refusals.

    Args:
        server: Name of the server and its model, for the log.
        extra: See `checked_extra_body`.
    """

    def __init__(self, server: str, extra: Mapping[str, Any]) -> None:
        self._server = server
        self._extra = checked_extra_body(extra)
        self._changed: dict[str, str | None] = {}  # field -> new name, or None where it is left out

    def of(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return a body as this server takes it."""
        named = {self._changed.get(name, name): value for name, value in body.items()}
        return {name: value for name, value in {**named, **self._extra}.items() if name and value is not None}

    def adapt(self, refusal: WireError, sent: Mapping[str, Any]) -> bool:
        """Rename or leave out, from now on, the field that a server does not support; say so once in the log.

        Returns:
            Whether the request can be sent again.
        """
        if refusal.status not in _INVALID or not _UNSUPPORTED.search(refusal.body):
            return False
        named = _named(refusal.body, [name for name in _LEFT_OUT if name in sent and name not in self._extra])
        if not named:
            return False
        with _lock:
            if named not in self._changed:  # else another request has found it at the same time
                self._changed[named] = _RENAMED.get(named)
                _log.warning("%s does not take %s = %r: %s", self._server, named, sent[named], _LEFT_OUT[named])
        return True

    def advice(self, refusal: WireError, sent: Mapping[str, Any]) -> str:
        """Return the remedy for a refusal that remains, as the end of a sentence."""
        if refusal.status is None:
            return "; is the server running?"
        if refusal.status in (401, 403):
            return "; give the key of this server as OPENAI_API_KEY (in Python: api_key)"
        if refusal.status == 404:
            return f"; check the address and the name of the model, {sent.get('model')!r}"
        if refusal.status not in _INVALID:
            return ""
        named = _named(refusal.body, [*_LEFT_OUT, *(name for name in sent if name not in _LEFT_OUT)])
        if named in _OURS:
            return f"; it refuses the field {named!r}, {sent.get(named)!r:.80}"
        if not named:
            return "; add or leave out fields of the request with extra_body, as extra_body = '{\"NAME\": null}'"
        option = f", the option {_OPTIONS.get(named, named)}" if named in sent and named not in self._extra else ""
        without = f"extra_body = '{{\"{named}\": null}}'"
        return f"; it refuses the field {named}{option}: give another value, or leave it out with {without}"


def _named(body: str, fields: list[str]) -> str:
    """Return the first of these fields that a refusal names; "" for none."""
    try:
        error: Any = json.loads(body)
    except (ValueError, RecursionError):
        error = None
    if isinstance(error, dict):
        error = cast("dict[str, Any]", error).get("error", error)
        parameter: Any = cast("dict[str, Any]", error).get("param") if isinstance(error, dict) else None
        if isinstance(parameter, str) and (root := re.split(r"[.\[]", parameter)[0]):
            return root if root in fields else ""
    plain = body.replace('\\"', '"')
    return next((name for name in fields if re.search(_mention(name), plain)), "")


def _mention(name: str) -> str:
    """Return a pattern for a field in a sentence; a name that is also a word must be quoted or follow a colon."""
    return rf"['\"`]{name}['\"`]|: {name}\b" if name in _WORDS else rf"\b{re.escape(name)}\b"
