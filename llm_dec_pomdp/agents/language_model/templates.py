# pyright: basic
"""The chat template of a model, which renders an agent's history as one string.

Templates accept different forms of messages. Some need content as parts. Some have no role for results of tools, or
accept results only after calls. So a template is tested when its model is loaded: a marker in place of each text has to
occur in the rendering. Without a template, an empty line separates texts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from ...registries import nearest
from ...types import Message, Tool
from ..base import chat, definitions

MARK = "\udffe"  # the marker of a text; no text contains it, since lone surrogates are replaced
_OURS = ("messages", "add_generation_prompt")  # variables of a template that users cannot set
_TASK, _TEXT, _FOUND, _NEXT = (f"{MARK}{number}{MARK}" for number in range(4))
_BEGUN = (Message("observation", _TASK),)
_TURNS = (*_BEGUN, Message("action", _TEXT), Message("observation", _NEXT))
_RESULT = (*_TURNS[:2], Message("tool", _FOUND, "probe"), *_TURNS[1:])
_PROBE = definitions([Tool("probe", "Probes.", (("query", "Words."),))])


class _Form(NamedTuple):
    """The form of messages that a template accepts.

    Attributes:
        parts: Roles whose content is a list of parts.
        takes_tools: Whether it receives the definitions of tools.
        tool_role: Whether results have the role "tool" (otherwise they are user messages), without and with tools.
    """

    parts: frozenset[str] = frozenset()
    takes_tools: bool = False
    tool_role: tuple[bool, bool] = (False, False)


_FORMS = tuple(_Form(frozenset(p)) for p in ((), ("user", "assistant", "tool"), ("user", "tool"), ("assistant",)))


class Template:
    """The rendering of histories with a tokenizer's chat template, or without one.

    Args:
        tokenizer: The tokenizer; its chat template is used if it has one.
        options: Variables of the chat template, e.g. `enable_thinking` of Qwen3.

    Attributes:
        exists: Whether the tokenizer has a chat template.
        closings: The strings that the template writes after an agent's text: at the end of a history, and before the
            next observation.
        seen: The sources of the template and renderings of short histories, which contain every token that it uses.

    Raises:
        ValueError: The template has no such variable, fails, or leaves out texts; or there are options and no template.
    """

    def __init__(self, tokenizer: Any, options: Mapping[str, Any]) -> None:
        self._tokenizer = tokenizer
        self._options = dict(options)
        self._name = getattr(tokenizer, "name_or_path", "")
        self._form = _FORMS[0]
        self.exists = bool(tokenizer.chat_template)
        sources = self._sources()
        self.closings, self.seen = ("", ""), "\n".join(sources)
        _refuse_unknown_variables(sources, self._options)
        if self.exists:
            self._try_out(sources)

    def render(
        self,
        history: Sequence[Message],
        tools: Sequence[Tool] = (),
        *,
        reply: bool = True,
        change: Callable[[str], str] = str,
    ) -> str:
        """Return a history as one string.

        Args:
            history: The agent's messages.
            tools: Tools that it may call, for templates with a place for them.
            reply: Whether the string ends with the beginning of the agent's next turn.
            change: A function that is applied to every text in the definitions of the tools.

        Raises:
            ValueError: The template fails.
        """
        if not self.exists:
            return "\n\n".join(message.text for message in history) + ("\n\n" if reply else "")
        return self._render(self._form, history, _changed(definitions(tools), change), reply=reply)

    def _render(
        self, form: _Form, history: Sequence[Message], tools: list[dict[str, Any]], *, reply: bool = True
    ) -> str:
        given = {"tools": tools} if tools and form.takes_tools else {}
        turns: list[dict[str, Any]] = list(chat(history, tools=form.tool_role[bool(given)]))
        for turn in turns:
            if turn["role"] in form.parts:
                turn["content"] = [{"type": "text", "text": turn["content"]}]
        try:
            return self._tokenizer.apply_chat_template(
                turns, tokenize=False, add_generation_prompt=reply, **given, **self._options
            )
        except Exception as error:  # a template is a program that may raise anything
            raise ValueError(
                f"the chat template of {self._name!r} failed ({type(error).__name__}: {error}); use a model whose "
                "template renders turns of a user and an assistant"
            ) from error

    def _sources(self) -> list[str]:
        """Return the templates that the tokenizer uses without and with tools; [] if it has none."""
        if not self.exists:
            return []
        try:
            return [self._tokenizer.get_chat_template(), self._tokenizer.get_chat_template(tools=_PROBE)]
        except ValueError:
            names = ", ".join(map(repr, self._tokenizer.chat_template))
            raise ValueError(
                f"chat_template of the tokenizer {self._name!r} has {names}, but no 'default'; set "
                "tokenizer.chat_template to one of them and save the tokenizer"
            ) from None

    def _try_out(self, sources: Sequence[str]) -> None:
        """Find the form of messages with which the template renders every text.

        Raises:
            ValueError: With every form, the template fails or leaves out a text.
        """
        first_turn = [form for form in _FORMS if self._shows(form, _BEGUN)] or [_FORMS[0]]
        self._form = next((form for form in _FORMS if self._shows(form, _TURNS)), first_turn[0])
        first = self.render(_BEGUN)
        if _TASK not in first:
            raise ValueError(
                f"the chat template of {self._name!r} leaves out the text of a user's message, given as a string or as "
                f"parts: it renders {first.replace(MARK, '')[:200]!r}; use a model with a template for texts, or set "
                "tokenizer.chat_template"
            )
        try:
            finished, turns = self.render(_TURNS[:2], reply=False), self.render(_TURNS)
        except ValueError:
            return  # a template for a single turn; a second one raises the same error
        missing = [message.role for message in _TURNS if message.text not in turns]
        if missing:
            raise ValueError(
                f"the chat template of {self._name!r} leaves out the text of an earlier message of the "
                f"{'assistant' if missing[0] == 'action' else 'user'}; use a model whose template renders turns of a "
                "user and an assistant, or set tokenizer.chat_template"
            )
        self.closings = (finished.rpartition(_TEXT)[2], turns.rpartition(_TEXT)[2].partition(_NEXT)[0])
        self.seen += f"\n{finished}"
        takes_tools = self._form._replace(takes_tools=True)
        if "tools" in sources[1] and self._shows(takes_tools, _TURNS, _PROBE):
            self._form = takes_tools
        with_role = self._form._replace(tool_role=(True, True))
        roles = [
            "tool" in source and self._shows(with_role, _RESULT, tools) and self._shows(with_role, _RESULT[:3], tools)
            for source, tools in zip(sources, ([], _PROBE), strict=True)
        ]
        self._form = self._form._replace(tool_role=(roles[0], roles[1]))

    def _shows(self, form: _Form, history: Sequence[Message], tools: list[dict[str, Any]] | None = None) -> bool:
        """Return whether every text of a history is in its rendering; if so, add the rendering to `seen`."""
        try:
            rendering = self._render(form, history, tools or [])
        except ValueError:
            return False
        shows = all(message.text in rendering for message in history)
        if shows:
            self.seen += f"\n{rendering}"
        return shows


def _changed(value: Any, change: Callable[[str], str]) -> Any:
    """Return a JSON value with a function applied to every string in it, including keys."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, list):
        return [_changed(element, change) for element in value]
    if isinstance(value, dict):
        return {change(key): _changed(element, change) for key, element in value.items()}
    return value


def _refuse_unknown_variables(sources: Sequence[str], options: Mapping[str, Any]) -> None:
    """Raise ValueError if a variable does not occur in the chat template, which would ignore it."""
    if options and not sources:
        name, value = next(iter(options.items()))
        raise ValueError(
            f"chat_template_kwargs has {name} = {value!r}, but the tokenizer has no chat template; leave it out"
        )
    template = "\n".join(sources)
    for name, value in options.items():
        if name in _OURS or not re.search(rf"\b{re.escape(name)}\b", template):
            asked_for = set(re.findall(r"(\w+) is (?:not )?defined", template)) - set(_OURS)
            raise ValueError(
                f"chat_template_kwargs has {name} = {value!r}, but this model's chat template has no such variable to "
                f"set; {nearest(name, asked_for)}"
            )
