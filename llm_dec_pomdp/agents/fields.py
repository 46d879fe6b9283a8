"""Fields of requests to a server: some are renamed or left out if the server refuses them, and users may add some."""

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

# Fields that the client may rename or leave out, with the effect. If a server names several, the first one is changed.
_LEFT_OUT = {
    "max_tokens": "the token limit is sent as max_completion_tokens, which also counts the tokens of thoughts",
    "top_k": "it is left out, and the server's own top_k applies",
    "top_p": "it is left out, and the server's own top_p applies",
    "seed": "it is left out, and samples are not reproducible",
    "stop": "it is left out, and the client cuts texts at these strings",
    "temperature": "it is left out, and the server's own temperature applies",
}
_RENAMED = {"max_tokens": "max_completion_tokens"}
_OPTIONS = {
    "max_tokens": "max_new_tokens",
    "max_completion_tokens": "max_new_tokens",
}  # names of our options, if they differ from the field
_OURS = ("messages", "model", "n", "stream")  # fields that extra_body must not set
_WORDS = ("messages", "model", "n", "seed", "stop")  # field names that are also words of a sentence
_INVALID = (400, 422)  # statuses of a request that the server refuses
_UNSUPPORTED = re.compile(
    r"unsupported|not (be )?support|unrecogni[sz]ed|unknown|unexpected|extra[ _](inputs|fields?|forbidden)"
    r"|not permitted|not allowed|cannot both|deprecated",
    re.IGNORECASE,
)


def checked_extra_body(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of additional fields for requests to a server, after checking them.

    Args:
        fields: Values by name; None leaves out a field that the client sends otherwise.

    Raises:
        ValueError: The client itself has to set a field, or a value cannot be written as JSON.
    """
    for name, value in fields.items():
        if name in _OURS:
            raise ValueError(f"extra_body sets {name!r}, which the client sets for each request; leave it out")
        try:
            json.dumps(value, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise ValueError(f"extra_body.{name} is {value!r:.80}, which is not a JSON value ({error})") from None
    return dict(fields)


class Fields:
    """The fields of requests to one server; fields that it refuses are changed in later requests.

    Args:
        server: Name of the server and its model, for the log.
        extra: Additional fields, see `checked_extra_body`.
    """

    def __init__(self, server: str, extra: Mapping[str, Any]) -> None:
        self._server = server
        self._extra = checked_extra_body(extra)
        self._changed: dict[str, str | None] = {}  # field -> new name, or None if it is left out

    def of(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return the body of a request with the fields that this server accepts."""
        named = {self._changed.get(name, name): value for name, value in body.items()}
        return {name: value for name, value in {**named, **self._extra}.items() if name and value is not None}

    def adapt(self, refusal: WireError, sent: Mapping[str, Any]) -> bool:
        """Rename or leave out, from now on, a field that the server does not support; log this once.

        Args:
            refusal: The error of the server.
            sent: The fields of the refused request.

        Returns:
            Whether the request can be sent again.
        """
        if refusal.status not in _INVALID or not _UNSUPPORTED.search(refusal.body):
            return False
        named = _named(refusal.body, [name for name in _LEFT_OUT if name in sent and name not in self._extra])
        if not named:
            return False
        with _lock:
            if named not in self._changed:  # a concurrent request may have changed it
                self._changed[named] = _RENAMED.get(named)
                _log.warning("%s does not support %s = %r: %s", self._server, named, sent[named], _LEFT_OUT[named])
        return True

    def advice(self, refusal: WireError, sent: Mapping[str, Any]) -> str:
        """Return the remedy for a refusal that `adapt` cannot solve, as the end of a sentence."""
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
    """Return the first of these fields that a refusal names; "" if it names none."""
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
