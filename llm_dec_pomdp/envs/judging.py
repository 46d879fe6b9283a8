"""LLM judges of rewards: frozen language models that measure how likely texts are, see `types.TextJudge`.

A judge is an object, or a name whose model is loaded at the first call. So making an environment does not load torch.
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
KEPT = 2048  # cached answers, about 12 KB each for a source of 200 tokens
_LOAD = "llm_dec_pomdp.agents.judges:load_judge"  # by name, since `envs` imports no models
Prefix = str | tuple[Message, ...]


class JudgeError(ValueError):
    """A reward has no LLM judge, or one that cannot be used; the message names the remedy."""


class RememberingJudge:
    """A judge with a cache of its answers by prefix and text; thread-safe.

    Args:
        judge: The judge, the name of a model that `agents.io.models.load_model` takes, or "base": the base model of a
            team with adapters, which the builder of the team passes to `bind`.
    """

    def __init__(self, judge: TextJudge | str) -> None:
        self.given = judge
        self._judge: TextJudge | None = None if isinstance(judge, str) else judge
        self._known: OrderedDict[tuple[Prefix, str], Likelihood] = OrderedDict()
        self._wanted: dict[tuple[Prefix, str], None] | None = None  # queries of a `put_off` block
        self._lock = threading.RLock()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the argument only; the judge is loaded again after unpickling."""
        return RememberingJudge, (self.given,)

    @property
    def name(self) -> str:
        """The name of the judge; loads the judge."""
        return self._loaded().name

    def bind(self, judge: TextJudge) -> None:
        """Set the judge for the name "base"."""
        self._judge = judge

    def log_likelihoods(self, prefixes: Sequence[Prefix], texts: Sequence[str]) -> list[Likelihood]:
        """Return log-likelihoods as `TextJudge` does, from the cache if possible.

        An empty text is not passed to the judge; its likelihood is the default `Likelihood()`.

        Raises:
            JudgeError: The judge is "base", and `bind` was not called.
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
        """Collect the queries of the block, and send them to the judge in one batch at its end.

        Within the block, a query that is not in the cache returns the default `Likelihood()`.
        """
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
        self._known.move_to_end(key)  # least recently used answers are removed first
        return self._known[key]

    def _loaded(self) -> TextJudge:
        if self._judge is None:
            if self.given == BASE:
                raise JudgeError(
                    "judge= is 'base', the base model of a team with adapters, but this team has none; train or "
                    "evaluate with sharing=lora, or set judge= to the name of a model"
                )
            judge: TextJudge = load_attribute(_LOAD, what="judge")(self.given)
            self._judge = judge
        return self._judge
