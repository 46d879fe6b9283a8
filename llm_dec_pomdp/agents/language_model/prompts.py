# pyright: basic
"""Prompts: an agent's history as token ids.

At the first turn the chat template renders the history, which is tokenised. Later prompts begin with the ids that were
shown and sampled, followed by those of what the template writes after the last text; so a text keeps the tokens with
which it was sampled. Where the template changes the last text (some leave out a model's thoughts), the whole history is
rendered and tokenised again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

from ...registries import nearest
from ...types import Message, Tool
from ..base import chat, definitions

_TEXT = "\ue0f7text\ue0f7"  # a placeholder for a text in a template, with characters for private use
_OURS = ("messages", "add_generation_prompt")  # variables of a template that are not the user's
_SHORT = 256  # longest text or history to cache, in characters: tasks of few words repeat them
_REMEMBERED = 4096  # most texts and histories in the cache


class PromptTooLongError(ValueError):
    """A prompt and its completion do not fit into the model's context."""


class Prompts:
    """Makes the prompts of a model.

    Args:
        tokenizer: Its chat template is used where it has one.
        stop_ids: Tokens that end a text.
        options: Variables of the chat template, e.g. `enable_thinking` of Qwen3.

    Raises:
        ValueError: The chat template has no such variable, or there is no template.
    """

    def __init__(self, tokenizer: Any, stop_ids: frozenset[int], options: Mapping[str, Any]) -> None:
        self._tokenizer = tokenizer
        self._stop_ids = stop_ids
        self._options = dict(options)
        self._known: dict[Hashable, tuple[int, ...]] = {}  # token ids of short texts and histories
        _refuse_unknown_variables(tokenizer, self._options)

    def encode(self, history: Sequence[Message], ids: Sequence[int] = (), tools: Sequence[Tool] = ()) -> list[int]:
        """Token ids of an agent's history, ready for its next text.

        Args:
            history: What it was told and said.
            ids: Ids that were shown and sampled up to its last text; empty: the whole history is tokenised.
            tools: Tools that it may call, for templates with a place for them.
        """
        size = sum(len(message.text) for message in history) + len(ids)
        key = (tuple(history), tuple(ids), tuple(tools))
        return self._remembered(key, size, lambda: self._encode(history, ids, tools))

    def _encode(self, history: Sequence[Message], ids: Sequence[int], tools: Sequence[Tool]) -> list[int]:
        added = self._after_last_text(history, tools) if ids else None
        if added is None:
            return self._tokenise(self._rendered(history, tools), beginning=True)
        following = self._tokenise(added.lstrip())
        if ids[-1] in self._stop_ids and following[:1] == [ids[-1]]:  # the template ends the text as the model did
            return [*ids, *following[1:]]
        return [*ids, *self._tokenise(added)]

    def plain_ids(self, text: str) -> list[int]:
        """Token ids of plain text, outside any template; never none, so that something can be predicted after them."""
        return self._tokenise(text, beginning=True) or [min(self._stop_ids)]

    def text_ids(self, text: str) -> list[int]:
        """Token ids of a text that an agent says, without the end token."""
        return self._remembered(text, len(text), lambda: self._tokenise(text))

    def _remembered(self, key: Hashable, size: int, compute: Callable[[], list[int]]) -> list[int]:
        if size > _SHORT:
            return compute()
        ids = self._known.get(key)
        if ids is None:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            ids = self._known[key] = tuple(compute())
        return list(ids)

    def _after_last_text(self, history: Sequence[Message], tools: Sequence[Tool]) -> str | None:
        """What the template writes after the agent's last text; None where it changes that text."""
        last = max(place for place, message in enumerate(history) if message.role == "said")
        marked = [*history[:last], Message("said", _TEXT), *history[last + 1 :]]
        before, _, after = self._rendered(marked, tools).rpartition(_TEXT)
        return after if self._rendered(history, tools) == before + history[last].text + after else None

    def _rendered(self, history: Sequence[Message], tools: Sequence[Tool]) -> str:
        if not self._tokenizer.chat_template:
            return "\n\n".join(message.text for message in history) + "\n\n"
        turns = chat(history, tools="tool" in self._tokenizer.chat_template)
        with_tools = {"tools": definitions(tools)} if tools and "tools" in self._tokenizer.chat_template else {}
        try:
            return self._tokenizer.apply_chat_template(
                turns, tokenize=False, add_generation_prompt=True, **with_tools, **self._options
            )
        except Exception as error:  # a template is a program, which raises what it likes
            raise ValueError(
                f"the chat template of {self._tokenizer.name_or_path!r} failed ({type(error).__name__}: {error}); take "
                "a model whose template renders turns of a user and an assistant"
            ) from error

    def _tokenise(self, text: str, *, beginning: bool = False) -> list[int]:
        """Token ids; at the beginning with the tokenizer's own first tokens, where no template writes them.

        Lone surrogates, which tokenizers refuse, become U+FFFD.
        """
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        special = beginning and not self._tokenizer.chat_template
        return list(self._tokenizer(text, add_special_tokens=special)["input_ids"])


def fitted(ids: list[int], new_tokens: int, model: Any, history: Sequence[Message], *, truncate: bool) -> list[int]:
    """A prompt that fits into the model's context together with `new_tokens` more.

    Of a longer one the end is kept with `truncate`; else it raises PromptTooLongError, which quotes the history.
    """
    limit = getattr(model.config, "max_position_embeddings", None)
    if limit in (None, -1) or len(ids) + new_tokens <= limit:  # some families have none
        return ids
    if truncate and new_tokens < limit:
        return ids[-(limit - new_tokens) :]
    raise PromptTooLongError(
        f"a prompt of {len(ids)} tokens and up to {new_tokens} new ones exceed the model's context of {limit}; "
        f"shorten the task (it begins {history[0].text[:60]!r}), lower max_new_tokens, take another model, or keep "
        "only the end of long prompts with --load truncate_prompts=true (in Python: truncate_prompts=True)"
    )


def stop_ids(model: Any, tokenizer: Any) -> frozenset[int]:
    """Every token that ends a turn: the tokenizer's end of sequence and those of the generation config.

    Raises:
        ValueError: There is none.
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


def refuse_foreign_tokenizer(model: Any, tokenizer: Any) -> None:
    """A tokenizer may not have more tokens than the model."""
    rows = model.get_input_embeddings().weight.shape[0]
    if len(tokenizer) > rows:
        raise ValueError(
            f"the tokenizer has {len(tokenizer)} tokens and {getattr(model.config, 'name_or_path', '') or 'the model'} "
            f"only {rows}, so they do not belong together; load the tokenizer that was saved with the model"
        )


def _refuse_unknown_variables(tokenizer: Any, options: Mapping[str, Any]) -> None:
    """Refuse variables that the chat template does not have: it would ignore them."""
    if not options:
        return
    name = next(iter(options))
    if not tokenizer.chat_template:
        raise ValueError(
            f"chat_template_kwargs has {name} = {options[name]!r}, but the tokenizer has no chat template; leave it out"
        )
    template = tokenizer.get_chat_template()
    for name, value in options.items():
        if name in _OURS or not re.search(rf"\b{re.escape(name)}\b", template):
            asked_for = set(re.findall(r"(\w+) is (?:not )?defined", template)) - set(_OURS)
            raise ValueError(
                f"chat_template_kwargs has {name} = {value!r}, which is no variable of this model's chat template that "
                f"can be set; {nearest(name, asked_for)}"
            )
