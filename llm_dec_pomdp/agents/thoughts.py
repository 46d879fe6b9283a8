"""Thoughts of reasoning models: private text that a model writes between two tags before its answer.

A thought is sampled and trained on like the answer, but it is not part of the action. It is neither scored nor parsed
for tool calls, and neither teammates nor the agent's own history contain it. Templates of DeepSeek-R1 and
Qwen3-Thinking open the thought in the prompt, so a sampled text may contain only the closing tag.
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, cast

import pydantic

from ..config import Config, build


class ThoughtTags(Config):
    """The tags around a thought."""

    open: Annotated[str, pydantic.Field(min_length=1)]
    """The tag that opens a thought."""
    close: Annotated[str, pydantic.Field(min_length=1)]
    """The tag that closes a thought; the answer follows the last one."""

    @pydantic.model_validator(mode="after")
    def _differ(self) -> ThoughtTags:
        if self.open == self.close:
            raise ValueError(f"thinking.open and thinking.close are both {self.open!r}; give two different tags")
        return self


def _checked(value: Any) -> Any:
    if isinstance(value, Mapping):
        return build(ThoughtTags, dict(cast("Mapping[str, Any]", value)), source="tags of a thought")
    if isinstance(value, ThoughtTags) or value in ("off", "auto"):
        return value
    raise ValueError("give 'off', 'auto', or tags such as { open = '<think>', close = '</think>' }")


Thinking = Annotated[Literal["off", "auto"] | ThoughtTags, pydantic.BeforeValidator(_checked)]
History = Literal["drop", "keep"]
KNOWN = (
    ThoughtTags(open="<think>", close="</think>"),  # DeepSeek-R1, Qwen3, GLM, SmolLM3, ...
    ThoughtTags(open="[THINK]", close="[/THINK]"),  # Magistral
    ThoughtTags(open="<seed:think>", close="</seed:think>"),  # Seed-OSS
    ThoughtTags(open="<|channel|>analysis<|message|>", close="<|channel|>final<|message|>"),  # gpt-oss
)
"""Tags that `thinking = "auto"` recognises."""


def split_thought(text: str, tags: ThoughtTags, *, opened: bool = False) -> tuple[str, str]:
    """Return the thought of a sampled text, without the tags around it, and its answer.

    The answer follows the last closing tag. It is empty if a thought is opened and never closed.

    Args:
        text: The sampled text.
        tags: The tags around a thought.
        opened: Whether the prompt ends with the opening tag.
    """
    thought, closed, answer = text.rpartition(tags.close)
    if tags.open in answer or (opened and not closed):
        thought, answer = text, ""
    begun = thought.lstrip()
    return begun.removeprefix(tags.open) if begun.startswith(tags.open) else thought, answer


def split_reply(message: Mapping[str, Any], text: str, thinking: Thinking) -> tuple[str, str]:
    """Return the thought and the answer of a server's reply.

    A server that recognises thoughts returns them in `reasoning_content` or `reasoning`. Other servers leave them in
    the content, where "auto" recognises known tags: a closing tag, or an opening tag at the beginning.

    Args:
        message: The server's message.
        text: Its content, with tool calls as text.
        thinking: See `RunOptions`.
    """
    if thinking == "off":
        return "", text
    for field in ("reasoning_content", "reasoning"):
        if isinstance(reasoning := message.get(field), str) and reasoning:
            return reasoning, text
    if not isinstance(thinking, str):
        return split_thought(text, thinking)
    return split_known(text)


def split_known(text: str) -> tuple[str, str]:
    """Split a text into thought and answer by the first known tags in it; without tags, all of it is the answer."""
    begun = text.lstrip()
    tags = next((tags for tags in KNOWN if tags.close in text or begun.startswith(tags.open)), None)
    return ("", text) if tags is None else split_thought(text, tags)


class Thoughts:
    """The thoughts in the texts that a model samples.

    Args:
        tokenizer: The tokenizer of the model.
        thinking: See `RunOptions`; "auto" uses the known tags that occur in the chat template.

    Attributes:
        tags: The tags around its thoughts; None if it has no thoughts.
    """

    def __init__(self, tokenizer: Any, thinking: Thinking) -> None:
        self._tokenizer = tokenizer
        self.tags = None if isinstance(thinking, str) else thinking
        if thinking == "auto":
            template: str | Mapping[str, str] = tokenizer.chat_template or ""
            templates = "\n".join(template.values()) if isinstance(template, Mapping) else template
            self.tags = next((tags for tags in KNOWN if tags.close in templates), None)
        added = tokenizer.get_added_vocab()
        tags = self.tags.open + self.tags.close if self.tags else ""
        self._special = {i: token for token, i in added.items() if token in tags and not self._decoded([i])}

    def text(self, ids: Sequence[int]) -> str:
        """Return the text of sampled ids without special tokens, except for those in tags."""
        runs = itertools.groupby(ids, self._special.get)
        return "".join(tag * len(list(run)) if tag else self._decoded(list(run)) for tag, run in runs)

    def split(self, text: str, prompt: Sequence[int]) -> tuple[str, str]:
        """Return thought and answer of a sampled text; the template may have opened the thought in the prompt."""
        if self.tags is None:
            return "", text
        last = prompt[-len(self.tags.open.encode()) - 8 :]  # a token has at least one byte; line breaks may follow
        opened = bool(self._tokenizer.chat_template) and self._tokenizer.decode(last).rstrip().endswith(self.tags.open)
        return split_thought(text, self.tags, opened=opened)

    def count(self, ids: Sequence[int], thought: str) -> int:
        """Return how many of the sampled ids belong to a thought and its tags."""
        if not thought or self.tags is None:
            return 0
        close = self.tags.close
        if close not in self.text(ids):
            return len(ids)
        starts = range(len(ids))  # the closing tag begins at the last token from which on the text has it
        start = bisect.bisect_left(starts, True, key=lambda k: close not in self.text(ids[k:])) - 1
        ends = range(start, len(ids) + 1)
        return ends[bisect.bisect_left(ends, True, key=lambda k: close in self.text(ids[start:k]))]

    def given(self, text: str, thought: str = "") -> tuple[str, str, str]:
        """Return the thought and the answer of a given text, and both in this model's tags.

        Args:
            text: The text; known tags in it mark a thought.
            thought: A thought that was recorded separately from the text.
        """
        if self.tags is None:
            return "", text, text
        answer = text
        if not thought:
            thought, answer = split_thought(text, self.tags) if self.tags.close in text else split_known(text)
        if not thought:
            return "", text, text
        thought, answer = thought.strip(), answer.strip()
        return thought, answer, f"{self.tags.open}\n{thought}\n{self.tags.close}\n\n{answer}"

    def shown(self, ids: Sequence[int]) -> bool:
        """Return whether the ids of a prompt contain a tag of a thought."""
        if self.tags is None:
            return False
        text = self.text(ids)
        return self.tags.open in text or self.tags.close in text

    def _decoded(self, ids: Sequence[int]) -> str:
        return self._tokenizer.decode(ids, skip_special_tokens=True)
