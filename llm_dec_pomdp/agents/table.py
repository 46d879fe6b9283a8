# pyright: basic
"""A policy without words of its own: for every history of an agent a row of logits over the texts of a menu.

It is the smallest model that can be any policy of a finite environment: what an agent does may depend on all that it
was told and said, and nothing is shared between histories. It starts uniform, and trains like a language model, with
texts of one token. A history has a row from the first sample of it that is learnt from, and is played uniformly before.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import torch

from ..seeding import derive, uniforms
from ..types import Completion, Message
from .base import Reading, Request, Sampling
from .transformers.decoding import draw

ROWS = 1 << 14


class Table:
    """Logits over a menu of texts, a row per history.

    Args:
        menu: What may be said. A text is one token: its place in the menu.
        rows: Histories that it can learn about.

    Raises:
        ValueError: The menu is empty.
    """

    def __init__(self, menu: Sequence[str], rows: int = ROWS) -> None:
        if not menu:
            raise ValueError("a table needs a menu of at least one text; give what the agent may say")
        self.menu = tuple(menu)
        self.logits = torch.nn.Parameter(torch.zeros(rows, len(self.menu)))
        self._rows: dict[int, int] = {}  # by the number of the history

    def generate(self, requests: Sequence[Request], sampling: Sampling) -> list[list[Completion]]:
        """Draw one text of the menu per seed."""
        histories = [(number_of(request.history), seed) for request in requests for seed in request.seeds]
        with torch.no_grad():
            u = torch.tensor([uniforms(seed, 1)[0] for _, seed in histories])
            tokens, logprobs = draw(self._logits([number for number, _ in histories]), u, sampling)
        said = iter(zip(histories, tokens.tolist(), logprobs.tolist(), strict=True))
        return [[self._completion(*next(said)) for _ in request.seeds] for request in requests]

    def _completion(self, asked: tuple[int, int], token: int, logprob: float) -> Completion:
        return Completion(self.menu[token], (asked[0],), (token,), (logprob,))

    def _logits(self, numbers: Sequence[int]) -> torch.Tensor:
        """The rows of some histories [N, menu]; zeros for those without one."""
        rows = torch.tensor([self._rows.get(number, -1) for number in numbers])
        return torch.where(rows[:, None] >= 0, self.logits[rows.clamp(min=0)], 0.0)

    # --- learning -----------------------------------------------------------------------------------------------------

    def parameters(self) -> Iterable[torch.nn.Parameter]:
        """The table."""
        return [self.logits]

    def token_logprobs(
        self, samples: Sequence[tuple[str, Completion]], temperature: float
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """See `TrainablePolicy`; histories that are new get a row.

        Raises:
            ValueError: There are more histories than rows.
        """
        logprobs, _, mask = self.token_logprobs_and_entropies(samples, temperature)
        return logprobs, mask

    def token_logprobs_and_entropies(
        self, samples: Sequence[tuple[str, Completion]], temperature: float
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """See `EntropyPolicy`; raises what `token_logprobs` does."""
        numbers = [completion.prompt_ids[0] for _, completion in samples]
        for number in numbers:
            self._rows.setdefault(number, len(self._rows))
        if len(self._rows) > len(self.logits):
            raise ValueError(
                f"there are more histories than the {len(self.logits)} rows of the table; play fewer turns, or a "
                "language model"
            )
        logprobs = (self._logits(numbers) / temperature).log_softmax(-1)
        tokens = torch.tensor([completion.token_ids[0] for _, completion in samples])
        chosen = logprobs.gather(1, tokens[:, None])
        return chosen, -(logprobs.exp() * logprobs).sum(-1, keepdim=True), torch.ones_like(chosen)

    def encode(self, history: Sequence[Message], new_tokens: int = 0, ids: Sequence[int] = ()) -> list[int]:
        """The number of a history, which is all that is read of it."""
        return [number_of(history)]

    def critic(self, groups: Sequence[Sequence[str]], *, own: bool) -> TableCritic:
        """A table of values, which shares nothing with this one in either case; see `CriticPolicy`."""
        return TableCritic(len(self.logits))

    # --- restarts -----------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, torch.Tensor]:
        """The logits of the histories that have a row, and the numbers of these histories in order."""
        numbers = torch.tensor(list(self._rows), dtype=torch.int64)
        return {"logits": self.logits.detach()[: len(numbers)], "histories": numbers}

    def load_state_dict(self, state: Mapping[str, torch.Tensor]) -> None:
        """Restore them.

        Raises:
            ValueError: Tensors of another kind of policy, or of another menu or size.
        """
        if set(state) != {"logits", "histories"}:
            raise ValueError(f"a table has the tensors logits and histories, not {sorted(state)}")
        logits, numbers = state["logits"], state["histories"].tolist()
        rows, texts = self.logits.shape
        if logits.shape[1:] != (texts,) or len(logits) != len(numbers) or len(numbers) > rows:
            raise ValueError(
                f"logits {tuple(logits.shape)} of {len(numbers)} histories do not fit a table of {rows} rows and "
                f"{texts} texts; give the environment it was trained on"
            )
        with torch.no_grad():
            self.logits.zero_()
            self.logits[: len(numbers)] = logits
        self._rows = {number: row for row, number in enumerate(numbers)}


class TableCritic:
    """A value for every reading, 0 until it was learnt from; see `Critic`.

    Args:
        rows: Readings that it can learn about.
    """

    def __init__(self, rows: int = ROWS) -> None:
        self.table = torch.nn.Parameter(torch.zeros(rows))
        self._rows: dict[int, int] = {}  # by the number of the reading

    def values(self, readings: Sequence[Reading]) -> torch.Tensor:
        """The values [N]; with gradient, new readings get a row.

        Raises:
            ValueError: There are more readings than rows.
        """
        numbers = [derive(0, agent, *ids) for agent, ids in readings]
        for number in numbers if torch.is_grad_enabled() else ():
            self._rows.setdefault(number, len(self._rows))
        if len(self._rows) > len(self.table):
            raise ValueError(
                f"there are more histories than the {len(self.table)} rows of the critic; play fewer turns, or a "
                "language model"
            )
        rows = torch.tensor([self._rows.get(number, -1) for number in numbers])
        return torch.where(rows >= 0, self.table[rows.clamp(min=0)], 0.0)

    def parameters(self) -> Iterable[torch.nn.Parameter]:
        """The table."""
        return [self.table]

    def state_dict(self) -> dict[str, torch.Tensor]:
        """The values that were learnt, and the numbers of their readings in order."""
        numbers = torch.tensor(list(self._rows), dtype=torch.int64)
        return {"values": self.table.detach()[: len(numbers)], "readings": numbers}

    def load_state_dict(self, state: Mapping[str, torch.Tensor]) -> None:
        """Restore them.

        Raises:
            ValueError: Tensors of another kind of critic, or more rows than there are.
        """
        if set(state) != {"values", "readings"} or len(state["values"]) > len(self.table):
            raise ValueError(
                f"{ {name: tuple(tensor.shape) for name, tensor in state.items()} } is no critic of at most "
                f"{len(self.table)} rows; give the options that it was trained with"
            )
        with torch.no_grad():
            self.table.zero_()
            self.table[: len(state["values"])] = state["values"]
        self._rows = {number: row for row, number in enumerate(state["readings"].tolist())}


def number_of(history: Sequence[Message]) -> int:
    """A number of 63 bits for a history, the same everywhere."""
    return derive(0, *(part for message in history for part in message))
