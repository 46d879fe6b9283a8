"""Numeric actions: positions in a menu of texts, or token ids. See `wrappers.numeric` for their common base."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from gymnasium import spaces

from ...registries import UnknownNameError
from ..base import TextDecPOMDP
from .numeric import NumericWrapper

Menu = Sequence[str] | Mapping[str, Sequence[str]] | Callable[[str, str], Sequence[str]]


class Tokenizer(Protocol):
    """The part of a tokenizer that `TokenIds` needs; tokenizers of `transformers` have it."""

    @property
    def pad_token_id(self) -> int | None:
        """Return the id that ends a text."""
        ...

    def __len__(self) -> int:
        """Return the number of ids."""
        ...

    def decode(self, token_ids: list[int], *, skip_special_tokens: bool) -> str:
        """Return the text of ids."""
        ...


class DiscreteMenu(NumericWrapper):
    """Actions are positions in a menu of candidate texts.

    Args:
        env: The inner environment, with text actions.
        menu: The candidates: a sequence for all agents, a mapping from agent to sequence, or a callable
            `(agent, observation)` that returns a sequence for the last text observation of the agent. A callable is
            called once per decision. To pickle the environment, use a named function, not a lambda.
        n: The number of candidates that a callable returns each time; ignored for other kinds of menu.

    Raises:
        TypeError: The actions are not text, or the menu is not a sequence of texts.
        ValueError: A menu is empty, or `n` is missing.
        KeyError: The agents of a mapping differ from those of the environment.
    """

    def __init__(self, env: TextDecPOMDP | NumericWrapper, menu: Menu, n: int | None = None) -> None:
        super().__init__(env)
        self._require_text("actions", self.action_spaces)
        self._offer = menu if callable(menu) else None
        self._menus = {} if callable(menu) else self._fixed(menu)
        sizes = {agent: len(texts) for agent, texts in self._menus.items()}
        if self._offer is not None:
            if n is None or n < 1:
                raise ValueError(f"n is {n}; give the number of candidates that the callable returns, at least 1")
            sizes = dict.fromkeys(self.possible_agents, n)
        self.action_spaces = {agent: spaces.Discrete(sizes[agent]) for agent in self.possible_agents}

    def menu(self, agent: str) -> tuple[str, ...]:
        """Return the current candidates of an agent; () if a callable makes them and the agent does not have to act."""
        return self._menus[agent] if self._offer is None else self._now.get(agent, ())

    def _fixed(self, menu: Sequence[str] | Mapping[str, Sequence[str]]) -> dict[str, tuple[str, ...]]:
        if not isinstance(menu, Mapping):
            menu = dict.fromkeys(self.possible_agents, menu)
        if set(menu) != set(self.possible_agents):
            raise UnknownNameError(f"the menu is for {sorted(menu)}; give one for each of {self.possible_agents}")
        return {agent: self._texts(agent, menu[agent]) for agent in self.possible_agents}

    def _texts(self, agent: str, candidates: Sequence[str], n: int | None = None) -> tuple[str, ...]:
        if isinstance(candidates, str) or not all(isinstance(text, str) for text in candidates):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"the menu of {agent} is {candidates!r:.80}; it must be a sequence of texts")
        if not candidates or (n is not None and len(candidates) != n):
            raise ValueError(f"the menu of {agent} has {len(candidates)} candidates; it must have {n or 'at least 1'}")
        return tuple(candidates)

    def _after(self) -> None:
        if self._offer is None:
            return
        self._now = {}
        for agent in self.agents:
            if self.asked(agent):
                observation = self.unwrapped.history(agent)[-1].text
                n = int(self.action_spaces[agent].n)  # type: ignore[attr-defined]  # Discrete
                self._now[agent] = self._texts(agent, self._offer(agent, observation), n)

    def _action(self, agent: str, action: Any) -> str:
        menu = self.menu(agent)
        try:
            index = operator.index(action)
        except TypeError:
            message = f"the action of {agent} is {action!r:.60}; it must be an integer in 0..{len(menu) - 1}"
            raise TypeError(message) from None
        if not 0 <= index < len(menu):
            raise ValueError(f"the action of {agent} is {index}; its menu has the entries 0..{len(menu) - 1}")
        return menu[index]

    def _ignored(self, agent: str, action: Any) -> str:
        return ""


class TokenIds(NumericWrapper):
    """Actions are token ids, decoded to text; the first pad id ends the text.

    Args:
        env: The inner environment, with text actions.
        vocabulary: Texts by id, or a tokenizer (its `decode` leaves special tokens out).
        max_tokens: Length of every action, in tokens.
        pad_id: The id that ends a text. Default: an additional id after the last text, or the tokenizer's
            `pad_token_id`.
        separator: The text between two texts of a vocabulary; ignored for a tokenizer.

    Raises:
        TypeError: The actions of the inner environment are not text.
        ValueError: `max_tokens` or the pad id is out of range.
    """

    def __init__(
        self,
        env: TextDecPOMDP | NumericWrapper,
        vocabulary: Sequence[str] | Tokenizer,
        max_tokens: int,
        *,
        pad_id: int | None = None,
        separator: str = " ",
    ) -> None:
        super().__init__(env)
        self._require_text("actions", self.action_spaces)
        if max_tokens < 1:
            raise ValueError(f"max_tokens is {max_tokens}; an action needs at least 1 token")
        size = len(vocabulary)
        if isinstance(vocabulary, Sequence):
            pad, size = (size, size + 1) if pad_id is None else (pad_id, size)
        else:
            pad = vocabulary.pad_token_id if pad_id is None else pad_id
        if pad is None or not 0 <= pad < size:
            raise ValueError(f"the pad id is {pad}; give pad_id, one of the {size} ids 0..{size - 1}")
        self.vocabulary, self.pad_id, self.separator = vocabulary, pad, separator
        self.action_spaces = {agent: spaces.MultiDiscrete([size] * max_tokens) for agent in self.possible_agents}

    def text(self, ids: Sequence[int]) -> str:
        """Return the text of an action."""
        kept = list(itertools.takewhile(lambda number: number != self.pad_id, ids))
        if isinstance(self.vocabulary, Sequence):
            return self.separator.join(self.vocabulary[i] for i in kept)
        return self.vocabulary.decode(kept, skip_special_tokens=True)

    def _action(self, agent: str, action: Any) -> str:
        ids, space = np.asarray(action), self.action_spaces[agent]
        if ids.dtype.kind not in "iu" or ids.shape != space.shape:
            raise TypeError(
                f"the action of {agent} is {ids.dtype} of shape {ids.shape}; it must be {space.shape} integers"
            )
        if not space.contains(ids.astype(np.int64)):
            raise ValueError(f"the action of {agent} has the ids {ids.min()}..{ids.max()}; they must be in {space}")
        return self.text([int(i) for i in ids])

    def _ignored(self, agent: str, action: Any) -> str:
        return ""
