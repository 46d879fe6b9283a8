"""Rewards that ask a frozen language model how likely texts are, see `types.TextJudge`.

The model is handed in, or named and then loaded when it is first asked, so that an environment costs no torch before.
"""

from __future__ import annotations

import contextlib
import threading
from collections import OrderedDict
from collections.abc import Generator, Sequence
from typing import Any

from ..registries import load_attribute
from ..types import Likelihood, Message, TextJudge

BASE = "base"
KEPT = 2048  # answers to remember, about 12 KB each for a source of 200 tokens
_LOAD = "llm_dec_pomdp.agents.judges:load_judge"  # by name: this room knows no models
Prefix = str | tuple[Message, ...]


class JudgeError(ValueError):
    """A reward without a judge, or one that cannot be used; the message says what to give."""


class RememberingJudge:
    """A judge that is asked once for each text after each prefix; threads may share it.

    Args:
        judge: The judge, the name of a model that `agents.io.models.load_model` takes, or "base": the model below the
            adapters of the team that plays, which whoever builds the team hands in with `bind`.
    """

    def __init__(self, judge: TextJudge | str) -> None:
        self.given = judge
        self._judge: TextJudge | None = None if isinstance(judge, str) else judge
        self._known: OrderedDict[tuple[Prefix, str], Likelihood] = OrderedDict()
        self._wanted: dict[tuple[Prefix, str], None] | None = None  # while asking is put off
        self._lock = threading.RLock()

    def __reduce__(self) -> tuple[Any, ...]:
        """What was given; it is loaded anew where it is unpickled."""
        return RememberingJudge, (self.given,)

    @property
    def name(self) -> str:
        """See `TextJudge`; loads the judge."""
        return self._loaded().name

    def bind(self, judge: TextJudge) -> None:
        """Say who "base" is."""
        self._judge = judge

    def log_likelihoods(self, prefixes: Sequence[Prefix], texts: Sequence[str]) -> list[Likelihood]:
        """See `TextJudge`; nothing is asked about an empty text, which is as unlikely as can be.

        Raises:
            JudgeError: The judge is "base", and nobody said who that is.
        """
        keys = list(zip(prefixes, texts, strict=True))
        with self._lock:
            new = dict.fromkeys(key for key in keys if key[1] and key not in self._known)
            if self._wanted is not None:
                self._wanted |= new
                return [self._recalled(key) for key in keys]
            answers = self._ask(list(new))
            return [answers.get(key) or self._recalled(key) for key in keys]

    @contextlib.contextmanager
    def put_off(self) -> Generator[None]:
        """Answer nothing new in the block but note what is asked, and ask it all at once at its end."""
        with self._lock:
            self._wanted = {}
            try:
                yield
                self._ask(list(self._wanted))
            finally:
                self._wanted = None

    def _ask(self, keys: Sequence[tuple[Prefix, str]]) -> dict[tuple[Prefix, str], Likelihood]:
        if not keys:
            return {}
        prefixes, texts = zip(*keys, strict=True)
        answers = dict(zip(keys, self._loaded().log_likelihoods(prefixes, texts), strict=True))
        self._known |= answers
        while len(self._known) > max(KEPT, len(keys)):
            self._known.popitem(last=False)
        return answers

    def _recalled(self, key: tuple[Prefix, str]) -> Likelihood:
        if key not in self._known:
            return Likelihood()
        self._known.move_to_end(key)  # the one used longest ago is forgotten first
        return self._known[key]

    def _loaded(self) -> TextJudge:
        if self._judge is None:
            if self.given == BASE:
                raise JudgeError(
                    "the judge is 'base', the model below the adapters of a team, and no team has one here; train or "
                    "evaluate with sharing=lora, or give judge= the name of a model"
                )
            judge: TextJudge = load_attribute(_LOAD, what="judge")(self.given)
            self._judge = judge
        return self._judge
