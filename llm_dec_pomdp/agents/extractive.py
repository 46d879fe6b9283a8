# pyright: basic
"""`builtin:extractive`: a small policy that writes by copying sentences of the text that a task is about.

Its tokens are the sentences of that text (the source), a few connectives, and an end token. A completion has the chosen
sentences word by word, in the order of the source. A connective precedes the sentence that was chosen after it. So
completions are readable from the first update on. The policy learns how many sentences to copy, how long they should
be, and from which part of the source.

The logit of a token is the product of the role's weights with features of the token and of the characters so far. At
first, all sentences and connectives are equally likely, and the end is about as likely as all of them together. The
policy observes only the lengths of sentences, which are its prompt, so a trained policy applies to any other text.

Under every protocol, the sentences come only from the source; messages of teammates are ignored. A single agent that
acts for the whole team writes a part for each role, with the weights of that role. `tldr-v0` rewards lengths and
vocabularies, which copied sentences can have. `tldr-v1` and `tldr-v2` do not reward copies ("originality"): 0 %.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import torch

from ..seeding import uniforms
from ..types import Completion, Excerpt, Message
from .base import Policy, Reading, Request, Sampling
from .language_model.decoding import draw

CONNECTIVES = ("In addition", "For example", "As a result", "On the other hand", "In the end", "In short")
_END, _FIRST = 0, 1 + len(CONNECTIVES)  # token ids: the end, the connectives, and from _FIRST on the sentences
_END_LOGIT = 3.0  # initial value
_KNOTS = np.array([0, 30, 50, 75, 100, 140, 190, 250, 330, 450, 600, 800], dtype=float)  # characters
_HATS = len(_KNOTS)
_FEATURES = 2 * _HATS + _FIRST + 3
_ABBREVIATION = r"(?<!\.\w\.)(?<!\b[DJMS][rst]\.)(?<!\bMrs\.)"  # a.m., Dr., ... end no sentence
_GAP = re.compile(rf"(?<=[.!?…]){_ABBREVIATION}\s+|(?<=[.!?…][\"'”’)])\s+(?![a-z\s])|\n+")  # between two sentences


class _Linear:
    """Trainable weights [rows, features], for a policy and for its critic."""

    def __init__(self, rows: int, features: int) -> None:
        self.weights = torch.nn.Parameter(torch.zeros(rows, features))

    def parameters(self) -> Iterable[torch.nn.Parameter]:
        """Return the weights."""
        return [self.weights]

    def state_dict(self) -> dict[str, torch.Tensor]:
        """Return the weights by name."""
        return {"weights": self.weights.detach()}

    def load_state_dict(self, state: Mapping[str, torch.Tensor]) -> None:
        """Restore the weights.

        Raises:
            ValueError: The tensors have another shape, or belong to another kind of policy.
        """
        shapes, shape = {name: tuple(tensor.shape) for name, tensor in state.items()}, tuple(self.weights.shape)
        if shapes != {"weights": shape}:
            raise ValueError(
                f"saved tensors {shapes} are incompatible with weights of shape {shape}; give the environment, the "
                "protocol and the options that they were trained with"
            )
        with torch.no_grad():
            self.weights.copy_(state["weights"])


class Extractive(_Linear, Policy):
    """A linear policy over the sentences of a text; see the module.

    Args:
        excerpt: The place of the text in an observation.
        roles: By agent, the roles whose parts it writes: its own role, or all roles.
    """

    def __init__(self, excerpt: Excerpt, roles: Mapping[str, Sequence[str]]) -> None:
        self.excerpt, self.roles = excerpt, {agent: tuple(written) for agent, written in roles.items()}
        every = dict.fromkeys(role for written in self.roles.values() for role in written)
        self._row_of = {role: row for row, role in enumerate(every)}
        super().__init__(len(every), _FEATURES)
        with torch.no_grad():
            self.weights[:, :_HATS] = _END_LOGIT

    def generate(self, requests: Sequence[Request], sampling: Sampling) -> list[list[Completion]]:
        """Sample one completion per seed; each token uses the next uniform random number of its seed's stream."""
        asked = [(request.agent, seed) for request in requests for seed in request.seeds]
        sources = [source for r in requests for source in [self._sentences(r.history)] * len(r.seeds)]
        completions = [Completion("", (len(source), *map(len, source)), truncated=True) for source in sources]
        u = torch.from_numpy(np.array([uniforms(seed, sampling.max_new_tokens) for _, seed in asked]))
        for step in range(sampling.max_new_tokens):
            running = [i for i, completion in enumerate(completions) if completion.truncated]
            if not running:
                break
            rows = [(asked[i][0], completions[i].prompt_ids, completions[i].token_ids) for i in running]
            with torch.no_grad():
                tokens, logprobs = draw(self._logits(rows), u[running, step], sampling)
            for i, token, logprob in zip(running, tokens.tolist(), logprobs.tolist(), strict=True):
                agent, before, ids = asked[i][0], completions[i], (*completions[i].token_ids, token)
                text = self._text(agent, sources[i], ids)
                stops = [text.index(stop) for stop in sampling.stop if stop in text]
                over = bool(stops) or ids.count(_END) == len(self.roles[agent])
                text, chances = text[: min(stops, default=None)], (*before.logprobs, logprob)
                completions[i] = Completion(text, before.prompt_ids, ids, chances, not over)
        answers = iter(completions)
        return [[next(answers) for _ in request.seeds] for request in requests]

    def _sentences(self, history: Sequence[Message]) -> list[str]:
        """Return the sentences of the source, which is part of the first message."""
        source = self.excerpt.of(history[0].text)
        return [" ".join(sentence.split()) for sentence in _GAP.split(source) if sentence.strip()]

    def _text(self, agent: str, sentences: Sequence[str], tokens: Sequence[int]) -> str:
        """Return the text of tokens; several parts have headers, as `Facts.split` reads them."""
        texts: list[str] = []
        for part in _parts(tokens):
            places = iter(sorted(token - _FIRST for token in part if token >= _FIRST))
            links = ["", *(f"{CONNECTIVES[token - 1]}: " if token < _FIRST else "" for token in part)]
            pairs = zip(links, part, strict=False)  # the connective before a token, and the token
            texts.append(" ".join(link + sentences[next(places)] for link, token in pairs if token >= _FIRST))
        headed = (f"[{role}]\n{text}" for role, text in zip(self.roles[agent], texts, strict=False))
        return "\n".join(headed) if len(self.roles[agent]) > 1 else texts[0]

    @property
    def processor_load(self) -> int:
        """Return 1: policies of this class run in parallel, one thread each, as their arrays are too small to split."""
        return 1

    @property
    def default_learning_rate(self) -> float:
        """Return the default learning rate; at three times this rate, even shuffled rewards change the policy a lot."""
        return 0.1

    @property
    def knows_entropy(self) -> bool:
        """Return True."""
        return True

    def token_logprobs(
        self, samples: Sequence[tuple[str, Completion]], temperature: float
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return log-probabilities [N, L] and mask [N, L]; see `Policy`."""
        logprobs, _, mask = self.token_logprobs_and_entropies(samples, temperature)
        return logprobs, mask

    def token_logprobs_and_entropies(
        self, samples: Sequence[tuple[str, Completion]], temperature: float
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return log-probabilities, entropies and mask, each [N, L]; see `Policy`."""
        ids = [completion.token_ids for _, completion in samples]
        rows = [(agent, c.prompt_ids, c.token_ids[:k]) for agent, c in samples for k in range(len(c.token_ids))]
        where = torch.tensor([[k < len(of) for k in range(max(map(len, ids)))] for of in ids])
        logprobs = (self._logits(rows) / temperature).log_softmax(-1)
        taken = logprobs.gather(1, torch.tensor([token for of in ids for token in of])[:, None])[:, 0]
        entropies = -(logprobs.exp() * logprobs.clamp(min=torch.finfo(logprobs.dtype).min)).sum(-1)
        empty = torch.zeros(where.shape)
        return empty.masked_scatter(where, taken), empty.masked_scatter(where, entropies), where.float()

    def _logits(self, rows: Sequence[tuple[str, Sequence[int], Sequence[int]]]) -> torch.Tensor:
        """Return logits [N, tokens] of the token after each (agent, prompt, tokens); minus infinity if impossible."""
        width = _FIRST + max(prompt[0] for _, prompt, _ in rows)
        features = np.zeros((len(rows), width, _FEATURES), dtype=np.float32)
        allowed = np.zeros((len(rows), width), dtype=bool)
        roles: list[int] = []
        for row, (agent, prompt, tokens) in enumerate(rows):
            parts, count = _parts(tokens), _FIRST + prompt[0]
            features[row, :count], allowed[row, :count] = _options(prompt[1:], parts[-1])
            roles.append(self._row_of[self.roles[agent][len(parts) - 1]])
        logits = torch.einsum("nwf,nf->nw", torch.from_numpy(features), self.weights[roles])
        return logits.masked_fill(~torch.from_numpy(allowed), -torch.inf)

    def encode(self, history: Sequence[Message], new_tokens: int = 0, ids: Sequence[int] = ()) -> list[int]:
        """Return the number of sentences of the source, and their lengths in characters."""
        sentences = self._sentences(history)
        return [len(sentences), *map(len, sentences)]

    def critic(self, groups: Sequence[Sequence[str]], *, separate: bool) -> LengthCritic:
        """Return a critic, which never shares weights with this policy; see `Policy`."""
        return LengthCritic(groups)


class LengthCritic(_Linear):
    """A `TokenCritic` that is linear in the length of the source and in features of the characters so far."""

    def __init__(self, groups: Sequence[Sequence[str]]) -> None:
        super().__init__(len(groups), _HATS + 1)
        self._row_of = {agent: row for row, agents in enumerate(groups) for agent in agents}

    def values(self, readings: Sequence[Reading]) -> torch.Tensor:
        """Return the values [N] of readings; see `Critic`."""
        return self.token_values(readings, 1)[:, 0]

    def token_values(self, readings: Sequence[Reading], count: int) -> torch.Tensor:
        """Return the values [N, count] of prefixes; see `TokenCritic`."""
        features = np.zeros((len(readings), count, _HATS + 1), dtype=np.float32)
        for row, (_, ids) in enumerate(readings):
            lengths, tokens = ids[1 : 1 + ids[0]], ids[1 + ids[0] :]
            so_far = [0, *np.cumsum([lengths[token - _FIRST] if token >= _FIRST else 0 for token in tokens])]
            features[row, -len(so_far) :, :_HATS] = _hats(np.array(so_far[-count:]))
            features[row, :, -1] = sum(lengths) / 1000
        rows = [self._row_of[agent] for agent, _ in readings]
        return torch.einsum("ncf,nf->nc", torch.from_numpy(features), self.weights[rows])

    def rescale(self, factor: float, shift: float) -> None:
        """Rescale the outputs; see `Critic`."""
        with torch.no_grad():
            self.weights *= factor
            self.weights[:, :_HATS] += shift  # the features of the characters so far sum to 1


def _parts(tokens: Sequence[int]) -> list[list[int]]:
    """Return tokens by part, without end tokens; the last part is unfinished."""
    parts: list[list[int]] = [[]]
    for token in tokens:
        if token == _END:
            parts.append([])
        else:
            parts[-1].append(token)
    return parts


def _options(lengths: Sequence[int], part: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
    """Return features [tokens, _FEATURES] of the next token of a part, and a mask [tokens] of the allowed tokens.

    A part has at least one sentence if the source has one. A connective is allowed between two sentences only. No
    sentence is repeated.
    """
    taken, count = [token - _FIRST for token in part if token >= _FIRST], len(lengths)
    total, after_sentence = sum(lengths[place] for place in taken), bool(part) and part[-1] >= _FIRST
    allowed = np.ones(_FIRST + count, dtype=bool)
    allowed[_END] = after_sentence or not count
    allowed[1:_FIRST] = after_sentence and len(taken) < count
    allowed[list(part)] = False
    features = np.zeros((_FIRST + count, _FEATURES), dtype=np.float32)
    hats = _hats(np.array([total, *(total + length for length in lengths)]))
    features[_END, :_HATS], features[_FIRST:, _HATS : 2 * _HATS] = hats[0], hats[1:]
    features[1:_FIRST, 2 * _HATS : -4] = np.eye(_FIRST - 1)
    features[1:_FIRST, -4] = len(part) - len(taken)  # connectives so far
    features[_FIRST:, -3] = 1.0
    features[_FIRST:, -2] = np.arange(count) / max(1, count - 1)
    features[_FIRST : _FIRST + 1, -1] = 1.0
    return features, allowed


def _hats(lengths: np.ndarray) -> np.ndarray:
    """Return piecewise linear features [N, _HATS] of lengths [N] in characters; the features of a length sum to 1."""
    clipped = np.clip(lengths, 0, _KNOTS[-1])
    right = np.clip(np.searchsorted(_KNOTS, clipped, side="right"), 1, _HATS - 1)
    share = (clipped - _KNOTS[right - 1]) / (_KNOTS[right] - _KNOTS[right - 1])
    hats, rows = np.zeros((len(clipped), _HATS)), np.arange(len(clipped))
    hats[rows, right], hats[rows, right - 1] = share, 1 - share
    return hats
