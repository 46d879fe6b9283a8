# pyright: basic
"""A tabular softmax policy for environments with few actions: one logit per history and action.

Different histories share no parameters. The policy starts uniform, and is trained like a language model whose
completions have one token. A history is added to the table at its first training sample; until then, its actions are
uniform.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar

import torch

from ..seeding import derive, uniforms
from ..types import Completion, Message
from .base import Policy, Reading, Request, Sampling
from .language_model.decoding import draw

ROWS = 1 << 14


class Rows:
    """A trainable table with one row per numbered history, in the order in which histories are added.

    Args:
        shape: Shape of the table; the first dimension is the maximum number of histories.
    """

    saved_as: ClassVar[tuple[str, str]]  # names of the tensors of the used rows and of the numbers of their histories

    def __init__(self, *shape: int) -> None:
        self.table = torch.nn.Parameter(torch.zeros(shape))
        self._row_of: dict[int, int] = {}

    def rows(self, numbers: Sequence[int]) -> torch.Tensor:
        """Return the rows of N histories, of shape (N, ...); zeros for histories without a row."""
        rows = torch.tensor([self._row_of.get(number, -1) for number in numbers])
        known = (rows >= 0).reshape(-1, *[1] * (self.table.dim() - 1))
        return torch.where(known, self.table[rows.clamp(min=0)], 0.0)

    def add(self, numbers: Iterable[int]) -> None:
        """Add a row for each new history.

        Raises:
            ValueError: There are more histories than rows.
        """
        for number in numbers:
            self._row_of.setdefault(number, len(self._row_of))
        if len(self._row_of) > len(self.table):
            raise ValueError(
                f"there are more histories than the {len(self.table)} rows of the table; use fewer turns, or a "
                "language model"
            )

    def parameters(self) -> Iterable[torch.nn.Parameter]:
        """Return the table."""
        return [self.table]

    def state_dict(self) -> dict[str, torch.Tensor]:
        """Return the rows in use, and the numbers of their histories in order."""
        numbers = torch.tensor(list(self._row_of), dtype=torch.int64)
        return dict(zip(self.saved_as, (self.table.detach()[: len(numbers)], numbers), strict=True))

    def load_state_dict(self, state: Mapping[str, torch.Tensor]) -> None:
        """Restore the rows.

        Raises:
            ValueError: The tensors belong to another kind of policy, or to another menu or size.
        """
        shapes = {name: tuple(tensor.shape) for name, tensor in state.items()}
        count = (*shapes.get(self.saved_as[1], ()), 0)[0]
        expected = dict(zip(self.saved_as, ((count, *self.table.shape[1:]), (count,)), strict=True))
        if shapes != expected or count > len(self.table):
            raise ValueError(
                f"saved tensors {shapes} are incompatible with a table of shape {tuple(self.table.shape)} and the "
                f"tensors {' and '.join(self.saved_as)}; give the environment and options that it was trained with"
            )
        values, numbers = (state[name] for name in self.saved_as)
        with torch.no_grad():
            self.table.zero_()
            self.table[:count] = values
        self._row_of = {number: row for row, number in enumerate(numbers.tolist())}


class Table(Rows, Policy):
    """A tabular softmax policy: one row of logits per history, one column per action.

    Args:
        menu: The possible actions. An action is one token, its index in the menu.
        rows: Maximum number of histories.

    Raises:
        ValueError: The menu is empty.
    """

    saved_as = ("logits", "histories")

    def __init__(self, menu: Sequence[str], rows: int = ROWS) -> None:
        if not menu:
            raise ValueError("menu is empty; give at least one action")
        self.menu = tuple(menu)
        super().__init__(rows, len(self.menu))

    def generate(self, requests: Sequence[Request], sampling: Sampling) -> list[list[Completion]]:
        """Sample one action of the menu per seed."""
        asked = [(number_of(request.history), seed) for request in requests for seed in request.seeds]
        numbers = [number for number, _ in asked]
        with torch.no_grad():
            u = torch.tensor([uniforms(seed, 1)[0] for _, seed in asked])
            tokens, logprobs = draw(self.rows(numbers), u, sampling)
        drawn = zip(numbers, tokens.tolist(), logprobs.tolist(), strict=True)
        completions = iter([Completion(self.menu[token], (number,), (token,), (p,)) for number, token, p in drawn])
        return [[next(completions) for _ in request.seeds] for request in requests]

    def to_completion(self, request: Request, text: str, limit: int, thought: str = "") -> Completion:
        """Return a given action of the menu as a completion, and any other text without tokens; see `Policy`."""
        if text not in self.menu:
            return Completion(text)
        return Completion(text, (number_of(request.history),), (self.menu.index(text),), (0.0,))

    @property
    def default_learning_rate(self) -> float:
        """Return 0.3; docs/which_learner.md compares learning rates."""
        return 0.3

    @property
    def knows_entropy(self) -> bool:
        """Return True."""
        return True

    def token_logprobs(
        self, samples: Sequence[tuple[str, Completion]], temperature: float
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return log-probabilities [N, 1] and mask [N, 1]; see `Policy`. New histories get a row; see `add`."""
        logprobs, _, mask = self.token_logprobs_and_entropies(samples, temperature)
        return logprobs, mask

    def token_logprobs_and_entropies(
        self, samples: Sequence[tuple[str, Completion]], temperature: float
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return log-probabilities, entropies and mask, each [N, 1]; see `Policy`. New histories get a row."""
        numbers = [completion.prompt_ids[0] for _, completion in samples]
        self.add(numbers)
        logprobs = (self.rows(numbers) / temperature).log_softmax(-1)
        tokens = torch.tensor([completion.token_ids[0] for _, completion in samples])
        chosen = logprobs.gather(1, tokens[:, None])
        return chosen, -(logprobs.exp() * logprobs).sum(-1, keepdim=True), torch.ones_like(chosen)

    def encode(self, history: Sequence[Message], new_tokens: int = 0, ids: Sequence[int] = ()) -> list[int]:
        """Return the number of a history as its only token."""
        return [number_of(history)]

    def critic(self, groups: Sequence[Sequence[str]], *, separate: bool) -> TableCritic:
        """Return a table of values, which never shares parameters with this policy; see `Policy`."""
        return TableCritic(len(self.table))


class TableCritic(Rows):
    """A tabular `Critic` with one value per reading, initially 0; `rows` is the maximum number of readings."""

    saved_as = ("values", "readings")

    def __init__(self, rows: int = ROWS) -> None:
        super().__init__(rows)

    def values(self, readings: Sequence[Reading]) -> torch.Tensor:
        """Return the values [N]. With gradient, new readings get a row; see `add`."""
        numbers = [derive(0, agent, *ids) for agent, ids in readings]
        if torch.is_grad_enabled():
            self.add(numbers)
        return self.rows(numbers)

    def token_values(self, readings: Sequence[Reading], count: int) -> torch.Tensor:
        """Return one value per (agent, history), shape [N, 1]. `count` is 1: a completion of a table has one token."""
        return self.values(readings)[:, None]

    def rescale(self, factor: float, shift: float) -> None:
        """Rescale the values; see `Critic`."""
        with torch.no_grad():
            self.table[: len(self._row_of)] = factor * self.table[: len(self._row_of)] + shift


def number_of(history: Sequence[Message]) -> int:
    """Return a hash of a history as a number of 63 bits, the same on every machine."""
    return derive(0, *(part for message in history for part in message))
