# pyright: basic
"""The checks of `doctor --device`: language models sample and learn on a device as they do on the CPU.

Every check computes a result twice, on the device and on the CPU or before and after a change, and compares. The
tolerance depends on the precision. With 32 bits, results agree up to rounding. With 16 bits, they may differ by an
amount that the importance ratios of learners correct.
"""

from __future__ import annotations

import copy
import importlib.util
import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from ..agents.base import Request, Sampling, Team
from ..agents.io.load import load_team
from ..algorithms.options import UpdaterOptions
from ..algorithms.samples import Sample
from ..algorithms.updater import step_updaters, updaters_of
from ..config import ConfigError
from ..envs.registration import make
from ..seeding import derive
from ..training.workers.process import Processes
from ..types import Completion

AGENTS = ("agent_0", "agent_1")
_DRAWN = Sampling(max_new_tokens=32)
_SPREAD = 0.02  # standard deviation of the second factors of adapters, which are zero at first
_RATE = 1e-3
_ROUNDING = 1e-3  # tolerance of log-probabilities, and relative one of gradients and steps, with 32 bits
_NATS = 0.1  # largest mean difference of log-probabilities with 16 bits
_COSINE = 0.95  # least cosine between gradients with 16 and with 32 bits
_MANY = 256  # completions at once in the check with too little memory
_SAME = 0.9  # least share of completions that are equal when sampled one at a time and in a batch, with 32 bits
Weights = dict[str, torch.Tensor]


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of a check.

    Attributes:
        name: Name of the check.
        holds: Whether the check passed; None if it could not be run.
        figures: Measured values, by name.
        meaning: The reason if the check could not be run, or the consequence and remedy if it failed.
    """

    name: str
    holds: bool | None
    figures: dict[str, float] = field(default_factory=dict[str, float])
    meaning: str = ""


@dataclass(frozen=True, slots=True)
class Precision:
    """A number type of weights and products; "mixed" has float32 weights and bfloat16 products."""

    name: str
    options: dict[str, Any]
    exact: bool


_FLOAT32 = Precision("float32", {"sharing": "shared", "dtype": "float32"}, True)
_ADAPTERS = Precision("adapters, float32", {"sharing": "lora", "dtype": "float32"}, True)
_MIXED = Precision("mixed", {"sharing": "shared", "dtype": "auto"}, False)
_FOUR_BITS = Precision("4 bits", {"sharing": "lora", "dtype": "bfloat16", "quantize": "4bit"}, False)
_SMALL = Precision("adapters, bfloat16", {"sharing": "lora", "dtype": "bfloat16"}, False)


class DeviceChecks:
    """The checks of one device.

    Args:
        device: "cpu", "cuda:0", ...
        model: Name of a model that loads quickly; see `agents.io.models`.
    """

    def __init__(self, device: str, model: str) -> None:
        self.device, self.model = device, model
        self.cuda = device.startswith("cuda")
        self.precisions = [_FLOAT32, _ADAPTERS, *([_MIXED] if self.cuda else []), _SMALL]
        env = make("tldr-v0")
        self.requests: list[Request] = []
        for number, item in enumerate(env.items[:4]):
            env.reset(seed=0, options={"task_id": item.id})
            for agent in AGENTS:
                seeds = (derive(number, agent, 0), derive(number, agent, 1))
                self.requests.append(Request(agent, tuple(env.history(agent)), seeds))
        self.reference = {p.options["sharing"]: self.team(p, "cpu") for p in (_FLOAT32, _ADAPTERS)}
        self.samples = self.drawn(self.reference["shared"])

    def team(self, precision: Precision, device: str | None = None, **options: Any) -> Team:
        """Return a team on the device with this precision, whose adapters have random instead of zero weights."""
        team = load_team(AGENTS, self.model, device=device or self.device, seed=0, **{**precision.options, **options})
        for policy in team.policies if precision.options["sharing"] == "lora" else ():
            policy.load_state_dict(_spread(policy.state_dict()))
        return team

    def drawn(self, team: Team) -> list[Sample]:
        """Sample completions of a team, and give them advantages."""
        texts = team.generate(self.requests, _DRAWN)
        pairs = [(r.agent, text) for r, copies in zip(self.requests, texts, strict=True) for text in copies]
        return [Sample(agent, text, (-1.0) ** place * (1 + place % 3)) for place, (agent, text) in enumerate(pairs)]

    def all(self) -> Iterator[Finding]:
        """Run all checks in order and yield their results; a check that raises an exception has failed."""
        for precision in self.precisions:
            for check in (self.log_probabilities, self.gradients, self.teacher_forcing):
                yield _tried(f"{_words(check)}, {precision.name}", lambda check=check, p=precision: check(p))
        for check in (
            self.alone_and_in_a_batch,
            self.adapters_apart,
            self.checkpoint_there_and_back,
            self.too_little_memory,
            self.packed_update,
            self.recomputed_update,
            self.four_bits,
            self.two_devices_side_by_side,
            self.worker_process,
            self.ranks,
            self.vllm_in_this_process,
        ):
            yield _tried(_words(check), check)

    # --- computations -------------------------------------------------------------------------------------------------

    def log_probabilities(self, precision: Precision) -> Finding:
        """Compare the log-probabilities of completions on the device with those on the CPU in float32."""
        here, there = (_logprobs(team, self.samples) for team in self._pair(precision))
        gap = (here - there).abs()
        figures = {"mean gap, nats": gap.mean().item(), "largest": gap.max().item()}
        holds = _close(gap, precision)
        return Finding("", holds, figures, "" if holds else "the policy differs from the one on the CPU")

    def gradients(self, precision: Precision) -> Finding:
        """Compare the gradient of a loss on the device with the one on the CPU in float32."""
        here, there = (_gradient(team, self.samples) for team in self._pair(precision))
        error = ((here - there).norm() / there.norm()).item()
        cosine = torch.nn.functional.cosine_similarity(here, there, dim=0).item()
        holds = error <= _ROUNDING if precision.exact else cosine >= _COSINE
        figures = {"relative error": error, "cosine": cosine}
        return Finding("", holds, figures, "" if holds else "training on this device differs; give dtype='float32'")

    def teacher_forcing(self, precision: Precision) -> Finding:
        """Compare the log-probabilities recorded while sampling with those of the same completions read again."""
        team = self.team(precision)
        samples = self.drawn(team)
        recorded, read = _recorded(samples), _logprobs(team, samples)
        gap = (recorded - read).abs()
        lengths = [len(s.completion.token_ids) for s in samples]
        ratios = torch.stack([part.sum() for part in (read - recorded).split(lengths)]).exp()
        figures = {"mean gap, nats": gap.mean().item(), "largest": gap.max().item()}
        figures |= {"least ratio of a text": ratios.min().item(), "greatest": ratios.max().item()}
        holds = _close(gap, precision)
        meaning = "the trained policy differs from the sampling one; set importance='token', or use another engine"
        return Finding("", holds, figures, "" if holds else meaning)

    def alone_and_in_a_batch(self) -> Finding:
        """Compare completions of the same seeds, sampled in one batch and one at a time, in float32."""
        team = self.team(_FLOAT32)
        together = [s.completion.token_ids for s in self.drawn(team)]
        team.policies[0].batch_rows.size = 1  # pyright: ignore[reportAttributeAccessIssue]
        alone = [s.completion.token_ids for s in self.drawn(team)]
        same = sum(a == b for a, b in zip(together, alone, strict=True)) / len(alone)
        meaning = "" if same >= _SAME else "the completion of a seed depends on the batch"
        return Finding("", same >= _SAME, {"share of same texts": same}, meaning)

    # --- updates and checkpoints --------------------------------------------------------------------------------------

    def adapters_apart(self) -> Finding:
        """Check that an update with completions of one agent does not change the adapter of the other."""
        team = self.team(_ADAPTERS)
        others = [s for s in self.samples if s.agent == AGENTS[1]]
        before, weights = _logprobs(team, others), _copied(team)
        _step(team, [s for s in self.samples if s.agent == AGENTS[0]])
        moved = {name for name, tensor in _copied(team).items() if not torch.equal(tensor, weights[name])}
        leaks = sum(AGENTS[1] in name for name in moved)
        gap = (_logprobs(team, others) - before).abs().max().item()
        holds = bool(moved) and not leaks and gap <= _ROUNDING
        figures = {"tensors moved": len(moved), "of the other agent": leaks, "gap of the other, nats": gap}
        meaning = "" if holds else "adapters are not independent; train with sharing separate"
        return Finding("", holds, figures, meaning)

    def checkpoint_there_and_back(self) -> Finding:
        """Save weights and optimizer, load them on the CPU and back on the device, and compare the next steps."""
        options = UpdaterOptions(learning_rate=_RATE)
        team = self.team(_ADAPTERS)
        [updater] = updaters_of(team, 1.0, options)
        updater.step(self.samples)
        kept, saved = _copied(team), (team.trainable[0].state_dict(), updater.state_dict())
        steps: dict[str, tuple[dict[str, float], Weights]] = {}
        unlike = 0
        for name, device in (("there", "cpu"), ("back", self.device)):
            weights, state = torch.load(_file(saved), map_location="cpu", weights_only=True)
            other = self.team(_ADAPTERS, device)
            [restored] = updaters_of(other, 1.0, options)
            other.trainable[0].load_state_dict(weights)
            restored.load_state_dict(state)
            loaded = _copied(other)
            unlike += sum(not torch.equal(tensor, loaded[key]) for key, tensor in kept.items())
            saved = torch.load(_file((other.trainable[0].state_dict(), restored.state_dict())), weights_only=True)
            steps[name] = restored.step(self.samples), _copied(other)
        steps["here"] = updater.step(self.samples), _copied(team)
        figures = {"tensors that changed": float(unlike)}
        for name in ("there", "back"):
            figures[f"difference of the next step, {name}"] = _apart(steps[name], steps["here"])
        holds = not unlike and max(figures.values()) <= 10 * _ROUNDING
        return Finding(
            "", holds, figures, "" if holds else "resume a run only on the kind of device that it started on"
        )

    def too_little_memory(self) -> Finding:
        """Check that a step with too little memory for the whole batch gives the same result in smaller parts."""
        if not self.cuda:
            return Finding("", None, {}, "only a GPU reports that it is out of memory")
        samples = [copy.copy(s) for s in self.samples * (_MANY // len(self.samples))]
        options = UpdaterOptions(learning_rate=_RATE, micro_batch=_MANY)

        def step() -> tuple[tuple[dict[str, float], Weights], int]:
            team = self.team(_FLOAT32)
            [updater] = updaters_of(team, 1.0, options)
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats(self.device)
            metrics = updater.step(samples)
            return (metrics, _copied(team)), updater.micro_batch.size

        wanted, _ = step()
        needed = torch.cuda.max_memory_reserved(self.device)
        torch.cuda.empty_cache()
        total = torch.cuda.get_device_properties(self.device).total_memory
        torch.cuda.set_per_process_memory_fraction(0.6 * needed / total, self.device)
        try:
            found, size = step()
        finally:
            torch.cuda.set_per_process_memory_fraction(1.0, self.device)
        apart = _apart(found, wanted)
        holds = size < _MANY and apart <= 10 * _ROUNDING
        figures = {"gigabytes needed": needed / 1e9, "texts at once": size, "difference of the step": apart}
        return Finding("", holds, figures, "" if holds else "set micro_batch and batch_rows by hand")

    def packed_update(self) -> Finding:
        """Compare a step with packed completions, which share a row with their prompt, with padded ones."""
        return self._as_usual(packed=True)

    def recomputed_update(self) -> Finding:
        """Compare a step with gradient checkpointing with one without."""
        return self._as_usual(gradient_checkpointing=True)

    def _as_usual(self, **options: Any) -> Finding:
        apart = _apart(*(_step(self.team(_ADAPTERS, **given), self.samples) for given in (options, {})))
        return Finding("", apart <= 10 * _ROUNDING, {"difference of the step": apart})

    def four_bits(self) -> Finding:
        """Check teacher forcing with adapters on a base model of 4 bits."""
        if importlib.util.find_spec("bitsandbytes") is None:
            return Finding("", None, {}, "bitsandbytes is not installed")
        return self.teacher_forcing(_FOUR_BITS)

    # --- devices, workers, ranks, vLLM --------------------------------------------------------------------------------

    def two_devices_side_by_side(self) -> Finding:
        """Compare the simultaneous steps of two models on two devices with those of both on this device."""
        others = [f"cuda:{number}" for number in range(torch.cuda.device_count())] if self.cuda else []
        other = next((name for name in others if name != self.device), "cpu")
        separate = Precision("", {"sharing": "separate", "dtype": "float32"}, True)
        apart = _apart(*(_step(self.team(separate, d), self.samples) for d in (f"{self.device},{other}", self.device)))
        holds = apart <= 10 * _ROUNDING
        return Finding(f"two devices side by side, with {other}", holds, {"difference of the step": apart})

    def worker_process(self) -> Finding:
        """Compare a step of a model in its own process with one in this process."""
        with Processes() as executor:
            placed = executor.load_team(AGENTS, self.model, device=self.device, seed=0, **_ADAPTERS.options)
            for policy in placed.policies:
                policy.load_state_dict(_spread(policy.state_dict()))
            apart = _apart(_step(placed, self.samples), _step(self.team(_ADAPTERS), self.samples))
        return Finding("", apart <= 10 * _ROUNDING, {"difference of the step": apart})

    def ranks(self) -> Finding:
        """Compare a step of a model sharded over two ranks (FSDP2) with one of a single process."""
        if self.cuda and torch.cuda.device_count() < 2:
            return Finding("", None, {}, "every rank needs its own GPU, and there is only one")
        with Processes() as executor:
            device = "cuda" if self.cuda else "cpu"
            placed = executor.load_team(AGENTS, self.model, device=device, seed=0, ranks=2, **_FLOAT32.options)
            apart = _apart(_step(placed, self.samples), _step(self.team(_FLOAT32), self.samples))
        return Finding("", apart <= 10 * _ROUNDING, {"difference of the step": apart})

    def vllm_in_this_process(self) -> Finding:
        """Compare log-probabilities of vLLM with those of the trainer, with adapters, before and after a step."""
        if importlib.util.find_spec("vllm") is None:
            return Finding("", None, {}, "vllm is not installed")
        team = self.team(_ADAPTERS, engine={"kind": "vllm-colocate"})
        figures: dict[str, float] = {}
        for when in ("before a step", "after it"):
            try:
                samples = self.drawn(team)
            except ConfigError as refused:  # vLLM computes on another device
                return Finding("", None, {}, str(refused))
            figures[f"mean gap {when}, nats"] = (_recorded(samples) - _logprobs(team, samples)).abs().mean().item()
            _step(team, samples)
        holds = all(gap <= _NATS for gap in figures.values())
        return Finding("", holds, figures, "" if holds else "vLLM samples with other weights; leave the engine out")

    def _pair(self, precision: Precision) -> tuple[Team, Team]:
        return self.team(precision), self.reference[precision.options["sharing"]]


def _tried(name: str, check: Callable[[], Finding]) -> Finding:
    try:
        found = check()
    except Exception as error:  # an error of a driver, a kernel or a library is the result of the check
        return Finding(name, False, {}, f"it raised {type(error).__name__}: {error}".strip())
    return Finding(found.name or name, found.holds, found.figures, found.meaning)


def _words(check: Any) -> str:
    return check.__name__.replace("_", " ")


def _close(gap: torch.Tensor, precision: Precision) -> bool:
    return gap.max().item() <= _ROUNDING if precision.exact else gap.mean().item() <= _NATS


def _spread(state: Weights) -> Weights:
    """Return the weights with random values in tensors that are zero, from a fixed seed."""
    generator = torch.Generator().manual_seed(0)
    drawn = {name: torch.randn(tensor.shape, generator=generator) * _SPREAD for name, tensor in state.items()}
    return {name: drawn[name].to(tensor) if not tensor.any() else tensor for name, tensor in state.items()}


def _recorded(samples: Sequence[Sample]) -> torch.Tensor:
    """Return the log-probabilities recorded while sampling, concatenated over completions, in float64."""
    return torch.tensor([p for s in samples for p in s.completion.logprobs], dtype=torch.float64)


def _logprobs(team: Team, samples: Sequence[Sample]) -> torch.Tensor:
    """Return the log-probabilities of all tokens, concatenated over completions, in float64 on the CPU."""
    [policy] = team.policies
    with torch.no_grad():
        logprobs, mask = policy.token_logprobs(_texts(samples), 1.0)
    return logprobs[mask.bool()].double().cpu()


def _gradient(team: Team, samples: Sequence[Sample]) -> torch.Tensor:
    """Return the gradient of the mean of log-probability times advantage, in float64 on the CPU."""
    [policy] = team.policies
    logprobs, mask = policy.token_logprobs(_texts(samples), 1.0)
    advantages = torch.tensor([s.advantage for s in samples], device=logprobs.device)
    (advantages * (logprobs * mask).sum(1)).mean().backward()
    parts = [p.grad.double().cpu().flatten() for p in policy.parameters() if p.grad is not None]
    for parameter in policy.parameters():
        parameter.grad = None
    return torch.cat(parts)


def _texts(samples: Sequence[Sample]) -> list[tuple[str, Completion]]:
    return [(s.agent, s.completion) for s in samples]


def _step(team: Team, samples: list[Sample]) -> tuple[dict[str, float], Weights]:
    """Update every policy once, and return metrics and weights."""
    metrics = step_updaters(updaters_of(team, 1.0, UpdaterOptions(learning_rate=_RATE)), samples, 0)
    return metrics, _copied(team)


def _copied(team: Team) -> Weights:
    pairs = [(n, p.state_dict()) for n, p in enumerate(team.trainable)]
    return {
        f"{n} {name}": tensor.detach().float().cpu().clone() for n, state in pairs for name, tensor in state.items()
    }


def _apart(first: tuple[dict[str, float], Weights], second: tuple[dict[str, float], Weights]) -> float:
    """Return the difference of two steps.

    It is the maximum of two numbers: the relative difference of the gradient norms, and the mean difference of the
    weights divided by the learning rate.
    """
    (metrics, weights), (others, wanted) = first, second
    norms = abs(metrics["grad_norm"] - others["grad_norm"]) / others["grad_norm"]
    moved = torch.cat([(tensor - weights[name]).abs().flatten() for name, tensor in wanted.items()])
    return max(norms, moved.mean().item() / _RATE)


def _file(value: Any) -> io.BytesIO:
    file = io.BytesIO()
    torch.save(value, file)
    file.seek(0)
    return file
