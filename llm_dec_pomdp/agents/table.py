# pyright: basic
"""A small policy for environments with few actions: for every history of an agent, logits over a menu of texts.

What an agent does may depend on all that it was told and said, and histories share nothing. The policy starts uniform,
and trains like a language model whose texts have one token. A history gets a row of the table with the first sample
that is learnt from, and is played uniformly before.
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
    """A trainable table that gives a row to each numbered history, in the order in which they come.

    Args:
        shape: Shape of the table; its length is the number of histories that it can learn about.
    """

    saved_as: ClassVar[tuple[str, str]]  # names of the used rows, and of the numbers of their histories

    def __init__(self, *shape: int) -> None:
        self.table = torch.nn.Parameter(torch.zeros(shape))
        self._row_of: dict[int, int] = {}

    def rows(self, numbers: Sequence[int]) -> torch.Tensor:
        """The rows of histories; zeros for those without one."""
        rows = torch.tensor([self._row_of.get(number, -1) for number in numbers])
        known = (rows >= 0).reshape(-1, *[1] * (self.table.dim() - 1))
        return torch.where(known, self.table[rows.clamp(min=0)], 0.0)

    def add(self, numbers: Iterable[int]) -> None:
        """Give a row to each new history.

        Raises:
            ValueError: There are more histories than rows.
        """
        for number in numbers:
            self._row_of.setdefault(number, len(self._row_of))
        if len(self._row_of) > len(self.table):
            raise ValueError(
                f"there are more histories than the {len(self.table)} rows of the table; play fewer turns, or a "
                "language model"
            )

    def parameters(self) -> Iterable[torch.nn.Parameter]:
        """The table."""
        return [self.table]

    def state_dict(self) -> dict[str, torch.Tensor]:
        """The rows in use, and the numbers of their histories in order."""
        numbers = torch.tensor(list(self._row_of), dtype=torch.int64)
        return dict(zip(self.saved_as, (self.table.detach()[: len(numbers)], numbers), strict=True))

    def load_state_dict(self, state: Mapping[str, torch.Tensor]) -> None:
        """Restore them.

        Raises:
            ValueError: Tensors of another kind of policy, or of another menu or size.
        """
        shapes = {name: tuple(tensor.shape) for name, tensor in state.items()}
        count = (*shapes.get(self.saved_as[1], ()), 0)[0]
        expected = dict(zip(self.saved_as, ((count, *self.table.shape[1:]), (count,)), strict=True))
        if shapes != expected or count > len(self.table):
            raise ValueError(
                f"saved tensors {shapes} do not fit a table of shape {tuple(self.table.shape)} with the tensors "
                f"{' and '.join(self.saved_as)}; give the environment and the options that it was trained with"
            )
        values, numbers = (state[name] for name in self.saved_as)
        with torch.no_grad():
            self.table.zero_()
            self.table[:count] = values
        self._row_of = {number: row for row, number in enumerate(numbers.tolist())}


class Table(Rows, Policy):
    """A policy of logits over a menu of texts, a row per history.

    Args:
        menu: What may be said. A text is one token: its place in the menu.
        rows: Number of histories that it can learn about.

    Raises:
        ValueError: The menu is empty.
    """

    saved_as = ("logits", "histories")

    def __init__(self, menu: Sequence[str], rows: int = ROWS) -> None:
        if not menu:
            raise ValueError("a table needs a menu of at least one text; give what the agent may say")
        self.menu = tuple(menu)
        super().__init__(rows, len(self.menu))

    def generate(self, requests: Sequence[Request], sampling: Sampling) -> list[list[Completion]]:
        """Draw one text of the menu per seed."""
        asked = [(number_of(request.history), seed) for request in requests for seed in request.seeds]
        numbers = [number for number, _ in asked]
        with torch.no_grad():
            u = torch.tensor([uniforms(seed, 1)[0] for _, seed in asked])
            tokens, logprobs = draw(self.rows(numbers), u, sampling)
        drawn = zip(numbers, tokens.tolist(), logprobs.tolist(), strict=True)
        completions = iter([Completion(self.menu[token], (number,), (token,), (p,)) for number, token, p in drawn])
        return [[next(completions) for _ in request.seeds] for request in requests]

    @property
    def default_learning_rate(self) -> float:
        """See `Policy`: docs/which_learner.md compares rates."""
        return 0.3

    @property
    def knows_entropy(self) -> bool:
        """It does."""
        return True

    def token_logprobs(
        self, samples: Sequence[tuple[str, Completion]], temperature: float
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """See `Policy`; raises what `add` does, since new histories get a row."""
        logprobs, _, mask = self.token_logprobs_and_entropies(samples, temperature)
        return logprobs, mask

    def token_logprobs_and_entropies(
        self, samples: Sequence[tuple[str, Completion]], temperature: float
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """See `Policy`; raises what `add` does, since new histories get a row."""
        numbers = [completion.prompt_ids[0] for _, completion in samples]
        self.add(numbers)
        logprobs = (self.rows(numbers) / temperature).log_softmax(-1)
        tokens = torch.tensor([completion.token_ids[0] for _, completion in samples])
        chosen = logprobs.gather(1, tokens[:, None])
        return chosen, -(logprobs.exp() * logprobs).sum(-1, keepdim=True), torch.ones_like(chosen)

    def encode(self, history: Sequence[Message], new_tokens: int = 0, ids: Sequence[int] = ()) -> list[int]:
        """The number of a history, which is all that the table reads of it."""
        return [number_of(history)]

    def critic(self, groups: Sequence[Sequence[str]], *, separate: bool) -> TableCritic:
        """A table of values, which never shares anything with this one; see `Policy`."""
        return TableCritic(len(self.table))


class TableCritic(Rows):
    """A value for each reading, 0 until it was learnt from; `rows` is how many can be. See `Critic`."""

    saved_as = ("values", "readings")

    def __init__(self, rows: int = ROWS) -> None:
        super().__init__(rows)

    def values(self, readings: Sequence[Reading]) -> torch.Tensor:
        """The values [N]; raises what `add` does, since with gradient new readings get a row."""
        numbers = [derive(0, agent, *ids) for agent, ids in readings]
        if torch.is_grad_enabled():
            self.add(numbers)
        return self.rows(numbers)

    def token_values(self, readings: Sequence[Reading], count: int) -> torch.Tensor:
        """See `TokenCritic`: a text has one token, before which stands what was read."""
        return self.values(readings)[:, None]

    def rescale(self, factor: float, shift: float) -> None:
        """See `Critic`."""
        with torch.no_grad():
            self.table[: len(self._row_of)] = factor * self.table[: len(self._row_of)] + shift


def number_of(history: Sequence[Message]) -> int:
    """A number of 63 bits for a history, the same everywhere."""
    return derive(0, *(part for message in history for part in message))
