# pyright: basic
"""Prompts: an agent's history as token ids.

At the first turn, the chat template renders the history, and the rendering is tokenized. A later prompt consists of the
token ids of the earlier prompt and completion, and the tokens of the string that the template writes after the last
action. So an action keeps the tokens with which it was sampled. If the template changes the last action (some templates
leave out thoughts), the whole history is rendered and tokenized again.

Texts never contain control tokens. These are special tokens, and added tokens that the template uses; only the template
writes them. If a text spells a control token, the spelling is cut, and both parts are tokenized separately. All other
texts have the ids of the rendering as a whole.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

from ...config import ConfigError
from ...types import Message, Tool
from ..thoughts import KNOWN
from .templates import MARK, Template

_CUT = "\udfff"  # marks a cut in a spelled control token; no text contains it, since lone surrogates are replaced
# Control tokens that an agent's own text may contain.
_OWN = {"<tool_call>", "</tool_call>"}.union(*((tags.open, tags.close) for tags in KNOWN))
_ANCHORS = ("\n", "a", ".")  # prefixes with which a text is tokenized as a continuation
_TAIL = 64  # characters of a prompt that decide how the text after it is tokenized
_SHORT = 256  # maximum length of a cached text or history, in characters; tasks with few words repeat them
_REMEMBERED = 4096  # maximum number of texts and histories in the cache


class PromptTooLongError(ValueError):
    """A prompt and its completion do not fit into the model's context."""


class Prompts:
    """The prompts of a model.

    Args:
        tokenizer: The tokenizer; its chat template is used if it has one.
        stop_ids: Tokens that end a text, according to tokenizer and model.
        options: Variables of the chat template, e.g. `enable_thinking` of Qwen3.

    Attributes:
        control: Id of each control token by its spelling.
        end: The token that ends an agent's text: the control token that the template writes after it, else the
            tokenizer's end of sequence.
        stop_ids: Tokens that end a text, including `end`.

    Raises:
        ValueError: The chat template has no such variable, fails or leaves out texts, or there is no template.
    """

    def __init__(self, tokenizer: Any, stop_ids: frozenset[int], options: Mapping[str, Any]) -> None:
        self._tokenizer = tokenizer
        self._template = Template(tokenizer, options)
        self._known: dict[Hashable, tuple[int, ...]] = {}  # token ids of short texts and histories
        self.control = _control_tokens(tokenizer, self._template.seen)
        own = {spelling: i for spelling, i in self.control.items() if spelling not in _OWN}
        self._spellings = {False: _spelled(self.control), True: _spelled(own)}  # by whether a text is the agent's own
        unknown = {tokenizer.unk_token_id}  # the id of texts without a token
        self._forbidden = {False: {*self.control.values()} - unknown, True: {*own.values()} - unknown}
        eos = tokenizer.eos_token_id
        self._end_of_plain = eos if eos is not None else min(stop_ids)
        tokens = sorted(self.control, key=len, reverse=True)
        ends = [token for text in self._template.closings for token in tokens if text.lstrip().startswith(token)]
        self.end = self.control[ends[0]] if ends else self._end_of_plain
        self.stop_ids = stop_ids | {self.end}
        self._ends = self.stop_ids & {self.end, *self.control.values()}  # end tokens that no text contains
        whole, text = self._ids("a", special=True), self._ids("a")
        places = [n for n in range(len(whole)) if whole[n : n + len(text)] == text]
        self._first = whole[: places[0]] if places else []  # tokens that the tokenizer itself writes before a text
        # Some tokenizers write a space before every text.
        self._anchors = _ANCHORS if self._ids("\na") != [*self._ids("\n"), *text] else ()

    def encode(self, history: Sequence[Message], ids: Sequence[int] = (), tools: Sequence[Tool] = ()) -> list[int]:
        """Return the token ids of an agent's history, as a prompt for its next action.

        Args:
            history: The agent's observations and actions.
            ids: Prompted and sampled ids up to its last action; empty: the whole history is tokenized.
            tools: Tools that it may call, for templates with a place for them.
        """
        size = sum(len(message.text) for message in history) + len(ids)
        key = (tuple(history), tuple(ids), tuple(tools))
        return self._remembered(key, size, lambda: self._encode(history, ids, tools))

    def _encode(self, history: Sequence[Message], ids: Sequence[int], tools: Sequence[Tool]) -> list[int]:
        shown = self._guarded(history)
        rendered = self._rendered(shown, tools)
        added = self._after_last_text(shown, rendered, tools) if ids else None
        if added is None:
            return [*([] if self._template.exists else self._first), *self._tokenise(rendered, beginning=True)]
        if not self._template.exists:  # only an empty line separates texts
            return [*(ids[:-1] if ids[-1] in self._ends else ids), *self._tokenise(added)]
        following = self._tokenise(added.lstrip())
        if ids[-1] in self.stop_ids and following[:1] == [ids[-1]]:  # the template ends the text as the model did
            return [*ids, *following[1:]]
        return [*ids, *self._tokenise(added)]

    def answer(
        self, history: Sequence[Message], text: str, ids: Sequence[int] = (), tools: Sequence[Tool] = ()
    ) -> tuple[list[int], list[int]]:
        """Return a prompt, and the ids of a given action after it, up to its end token, as the template writes it.

        A template may open a thought in a prompt and leave thoughts out of finished turns. Then the prompt ends before
        that thought; if the given text contains a thought, it follows unchanged.

        Args:
            history, ids, tools: See `encode`.
            text: The agent's text.
        """
        shown = self._guarded(history)
        said = self._cut(text, own=True)
        prompt, opened = self.encode(history, ids, tools), self._rendered(shown, tools)
        whole = self._rendered([*shown, Message("action", said)], tools, reply=False)
        before, _, after = self._rendered([*shown, Message("action", MARK)], tools, reply=False).rpartition(MARK)
        kept = whole.startswith(before) and said.strip() in whole
        if kept and not whole.startswith(opened) and opened.startswith(before):
            extra = self._tokenise(opened[len(before) :])
            ends_so = prompt[-len(extra) :] == extra
            prompt = prompt[: -len(extra)] if ends_so else self._tokenise(before, beginning=True)
            opened = before
        turn = whole[len(opened) :] if whole.startswith(opened) else said
        if any(tags.close in said and tags.close not in turn for tags in KNOWN):
            turn = said
        behind = opened.rpartition(_CUT)[2][-_TAIL:]
        written = self._tokenise(turn, behind=behind)
        last = next((n for n, token in enumerate(written) if token in self._ends), None)
        if last is None:
            return prompt, [*self._tokenise(turn.removesuffix(after), behind=behind), self.end]
        return prompt, written[: last + 1]

    def stop_tokens(self, stop: Sequence[str]) -> set[int]:
        """Return the ids of stop strings that are special tokens, which decoded texts do not show.

        Raises:
            ConfigError: A stop string contains such a token and other characters.
        """
        ids: set[int] = set()
        for token, i in self.control.items():
            for string in stop:
                if token not in string:
                    continue
                if i != self.end and token in self._tokenizer.decode([i], skip_special_tokens=True):
                    continue  # an added token that is not special
                if token != string:
                    raise ConfigError(
                        f"stop has {string!r}, which contains {token!r}, a special token that decoded texts do not "
                        f"show; give only {token!r}, or leave it out"
                    )
                ids.add(i)
        return ids

    def plain_ids(self, text: str) -> list[int]:
        """Return the ids of plain text without a template, after the tokenizer's own tokens at the start of a text.

        There is always at least one id, so that a next token can be predicted.
        """
        return [*self._first, *self._tokenise(self._cut(text), beginning=True)] or [self._end_of_plain]

    def text_ids(self, text: str) -> list[int]:
        """Return the ids of a text that follows another text, without an end token and without control tokens."""
        return self._remembered(text, len(text), lambda: self._tokenise(self._cut(text)))

    def _remembered(self, key: Hashable, size: int, compute: Callable[[], list[int]]) -> list[int]:
        if size > _SHORT:
            return compute()
        ids = self._known.get(key)
        if ids is None:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            ids = self._known[key] = tuple(compute())
        return list(ids)

    def _after_last_text(self, shown: Sequence[Message], rendered: str, tools: Sequence[Tool]) -> str | None:
        """Return the string that the template writes after the agent's last action; None if it changes that action."""
        last = max(place for place, message in enumerate(shown) if message.role == "action")
        marked = [*shown[:last], Message("action", MARK), *shown[last + 1 :]]
        before, _, after = self._rendered(marked, tools).rpartition(MARK)
        text = shown[last].text
        return after if rendered in (before + text + after, before + text.strip() + after) else None

    def _rendered(self, history: Sequence[Message], tools: Sequence[Tool], *, reply: bool = True) -> str:
        return self._template.render(history, tools, reply=reply, change=self._cut)

    # --- text without structure ---------------------------------------------------------------------------------------

    def _guarded(self, history: Sequence[Message]) -> list[Message]:
        """Return a history whose texts contain no control token."""
        return [Message(m.role, self._cut(m.text, own=m.role == "action"), self._cut(m.name)) for m in history]

    def _cut(self, text: str, *, own: bool = False) -> str:
        """Return a text with a cut in every control token that it spells; lone surrogates become U+FFFD."""
        text = self._spellings[own].sub(rf"\g<0>{_CUT}", _without_surrogates(text))
        return _CUT.join(part for piece in text.split(_CUT) for part in self._harmless(piece, own=own))

    def _harmless(self, piece: str, *, own: bool) -> list[str]:
        """Return the parts of a text, split so that the tokenizer normalizes none of them to a control token."""
        if len(piece) < 2 or self._forbidden[own].isdisjoint(self._ids(piece)):
            return [piece]
        middle = len(piece) // 2
        return [*self._harmless(piece[:middle], own=own), *self._harmless(piece[middle:], own=own)]

    def _tokenise(self, text: str, *, beginning: bool = False, behind: str = "") -> list[int]:
        """Return the ids of a rendering, whose pieces between cuts are tokenized separately.

        Args:
            text: The rendering or a part of it.
            beginning: Whether it is the beginning, where a tokenizer may add a space.
            behind: The end of the string before the text, if it is known.
        """
        first, *others = text.split(_CUT)
        anchors = (behind, *self._anchors) if behind else self._anchors
        ids = self._ids(first) if beginning else self._following(first, anchors)
        for piece in others:
            ids += self._following(piece, self._anchors)
        return ids

    def _following(self, text: str, anchors: Sequence[str]) -> list[int]:
        """Return the ids of a text that follows another text."""
        for anchor in anchors:
            before, both = self._ids(anchor), self._ids(anchor + text)
            if both[: len(before)] == before:
                return both[len(before) :]
        return self._ids(text)

    def _ids(self, text: str, *, special: bool = False) -> list[int]:
        return list(self._tokenizer(_without_surrogates(text), add_special_tokens=special)["input_ids"])


def _control_tokens(tokenizer: Any, seen: str) -> dict[str, int]:
    """Return the special tokens, and the added tokens that the template uses, with their ids."""
    special = dict(zip(tokenizer.all_special_tokens, tokenizer.all_special_ids, strict=True))
    added = {str(token.content): (i, token.special) for i, token in tokenizer.added_tokens_decoder.items()}
    used = {text: i for text, (i, hidden) in added.items() if hidden or (text.strip(" \t\r\n▁") and text in seen)}
    return {text: i for text, i in {**used, **special}.items() if text}


def _spelled(control: Mapping[str, int]) -> re.Pattern[str]:
    """Return a pattern for the first letter of every control token in a text, including overlapping ones."""
    spellings = sorted((text for text in control if len(text) > 1), key=len, reverse=True)
    if not spellings:
        return re.compile("(?!)")
    first = "".join(re.escape(letter) for letter in sorted({text[0] for text in spellings}))
    return re.compile(f"(?=[{first}])(?=(?:{'|'.join(map(re.escape, spellings))})).", re.DOTALL)


def _without_surrogates(text: str) -> str:
    """Return a text in which lone surrogates, which tokenizers refuse, are U+FFFD."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def fitted(ids: list[int], new_tokens: int, model: Any, history: Sequence[Message], *, truncate: bool) -> list[int]:
    """Return a prompt that fits into the model's context together with `new_tokens` more; with `truncate`, its end.

    Raises:
        PromptTooLongError: It does not fit, and `truncate` is False; the message quotes the history.
    """
    limit = getattr(model.config, "max_position_embeddings", None)
    if limit in (None, -1) or len(ids) + new_tokens <= limit:  # some model families have no limit
        return ids
    if truncate and new_tokens < limit:
        return ids[-(limit - new_tokens) :]
    raise PromptTooLongError(
        f"a prompt of {len(ids)} tokens and up to {new_tokens} new ones exceed the model's context of {limit}; "
        f"shorten the task (it begins {history[0].text[:60]!r}), lower max_new_tokens, use another model, or keep "
        "only the end of long prompts with --load truncate_prompts=true (in Python: truncate_prompts=True)"
    )


def stop_ids(model: Any, tokenizer: Any) -> frozenset[int]:
    """Return all tokens that end a turn: the tokenizer's end of sequence and those of the generation config.

    Raises:
        ValueError: There is no such token.
    """
    configured = getattr(model.generation_config, "eos_token_id", None)
    listed = configured if isinstance(configured, (list, tuple)) else [configured]
    ids = {i for i in (*listed, tokenizer.eos_token_id) if i is not None}
    if not ids:
        raise ValueError(
            f"the tokenizer of {getattr(model.config, 'name_or_path', 'this model')!r} has no end-of-sequence token, "
            "so no text would ever end; set tokenizer.eos_token"
        )
    return frozenset(ids)


def check_tokenizer(model: Any, tokenizer: Any) -> None:
    """Raise ValueError if the tokenizer has more tokens than the model."""
    rows = model.get_input_embeddings().weight.shape[0]
    if len(tokenizer) > rows:
        raise ValueError(
            f"the tokenizer has {len(tokenizer)} tokens and {getattr(model.config, 'name_or_path', '') or 'the model'} "
            f"only {rows}, so they do not belong together; load the tokenizer that was saved with the model"
        )
