"""The command `doctor`, which checks the sandbox for generated code, or a device for language models."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..printable import plain
from .console import err, out, print_json, stop, usage
from .options import Json

if TYPE_CHECKING:
    from ..benchmarks.device_checks import Finding
    from ..progress import Advance
    from ..sandbox import Capabilities, Job
    from ..sandbox.doctor import Examination, Program

_TINY = "builtin:tiny"
_AT_ONCE = 32  # reference solutions between two updates of the progress
_WITH_REFERENCES = ("humaneval-v0", "coophumaneval-v0", "mbpp-v0")


def doctor(
    only: Annotated[
        list[str] | None, typer.Option(help="Run only this hostile program. May be given several times.")
    ] = None,
    device: Annotated[
        str | None, typer.Option(help="Check this device in place of the sandbox: cpu, cuda:0, ...")
    ] = None,
    model: Annotated[
        str, typer.Option(help="With --device: the model whose results are compared with those on the CPU.")
    ] = _TINY,
    shape: Annotated[
        str | None,
        typer.Option(help="With --device: measure speed with random weights of this published model, e.g. Qwen3-1.7B."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Test the sandbox for generated code, or with --device a device for language models.

    The sandbox runs hostile programs, with all layers of protection and with each layer switched off in turn. Without
    --only it also runs the reference solutions of the code tasks. Exit code 1 if a hostile program escapes or a
    reference solution fails.

    With --device, sampling, training and checkpoints on the device are compared with the CPU, and speed and memory are
    measured. This takes some minutes. Exit code 1 if a check fails.

    Examples: [bold]llm-dec-pomdp doctor[/]
              [bold]llm-dec-pomdp doctor --device cuda:0 --shape Qwen3-1.7B[/]
    """
    if device is not None:
        if only:
            stop("--only is for the sandbox and --device for a device; give one of them")
        _examine_device(device, model, shape, as_json)
        return
    from ..progress import shown
    from ..sandbox import SandboxError, capabilities
    from ..sandbox.doctor import examine

    chosen = _chosen(only)
    try:
        able = capabilities()
    except SandboxError as silent:
        stop(str(silent))
    examinations: dict[str, Examination] = {}
    honest = {} if only else _references()
    rounds = ["", *able.working]
    with shown(err, quiet=as_json) as progress:
        progress.say(
            f"trying {len(chosen)} hostile programs {len(rounds)} times (with all layers, and with each layer switched "
            f"off) and {len(honest)} reference solutions; this takes one to two minutes on two cores"
        )
        with progress.stage("hostile programs", len(rounds) * len(chosen)) as advance:
            for layer in rounds:
                examinations[layer] = examine(chosen, [layer] if layer else [])
                advance(len(chosen), f"finished{_without(layer)}" if layer else "finished with all layers")
        with progress.stage("reference solutions", len(honest)) as advance:
            failed = _failed(honest, advance)
    totals = {kind: sum(e.counts[kind] for e in examinations.values()) for kind in examinations[""].counts}
    if as_json:
        layers = {**able.to_dict(), "missing": able.missing or None}
        print_json({**layers, **_plain(examinations), **totals, "honest": len(honest), "honest_failed": failed})
    else:
        _print_layers(able)
        for layer, examination in examinations.items():
            _print(layer, examination)
        out.print("; ".join(f"{kind.replace('_', ' ')} {count}" for kind, count in totals.items()))
        if honest:
            names = f"; failed: {', '.join(failed)}" if failed else ""
            out.print(f"{len(honest) - len(failed)} of {len(honest)} reference solutions pass{names}")
    if failed or any(e.problems for e in examinations.values()):
        raise typer.Exit(1)


# --- a device ---------------------------------------------------------------------------------------------------------


def _examine_device(device: str, model: str, shape: str | None, as_json: bool) -> None:
    """Check a device and measure its speed."""
    from ..agents.io.models import locate
    from ..agents.shapes import PREFIX
    from ..benchmarks.checks import check_device

    device = "cuda:0" if device == "cuda" else device
    fast = PREFIX + shape if shape else model
    with usage():
        check_device(device)
        for name in (model, fast):
            locate(name)
        if model.startswith(PREFIX):
            stop(f"--model {model!r} has different random weights on each device; give it as --shape")
    from ..benchmarks.device_checks import DeviceChecks
    from ..benchmarks.device_speed import about, speeds

    findings: list[Finding] = []
    rows: list[dict[str, Any]] = []
    err.print(f"checking {device} with {model}, then measuring its speed with {fast}; this takes some minutes")
    with err.status(f"checking {device} with {model}"):
        for finding in DeviceChecks(device, model).all():
            findings.append(finding)
            if not as_json:
                _print_finding(finding)
    with err.status(f"measuring {device} with {fast}"):
        for row in speeds(device, fast):
            rows.append(row)
            if not as_json:
                _print_speed(row)
    failed = [finding.name for finding in findings if finding.holds is False]
    failed += [f"{row['what']}, {row['weights']}, {row['texts']} at once" for row in rows if "failed" in row]
    if as_json:
        checks = [dataclasses.asdict(finding) for finding in findings]
        print_json({**about(device), "model": model, "checks": checks, "measured_with": fast, "speeds": rows})
    else:
        tried = sum(finding.holds is not None for finding in findings)
        held = sum(finding.holds is True for finding in findings)
        out.print(
            f"{about(device)['name']}: {held} of {tried} checks hold"
            + (f"; failed: {', '.join(failed)}" * bool(failed))
        )
    if failed:
        raise typer.Exit(1)


def _print_finding(finding: Finding) -> None:
    state, colour = {True: ("holds", "green"), False: ("fails", "red"), None: ("not tried", "yellow")}[finding.holds]
    figures = ", ".join(f"{name} {value:.3g}" for name, value in finding.figures.items())
    out.print(plain(f"{state:9}", colour), f"{finding.name}:", "; ".join(filter(None, (figures, finding.meaning))))


def _print_speed(row: dict[str, Any]) -> None:
    if "operations_per_s" in row:
        out.print(f"{row['what']}: {row['operations_per_s'] / 1e12:.1f} TFLOP/s")
        return
    title = f"{row['what']}, {row['weights']}, {row['texts']} at once:"
    if "failed" in row:
        out.print(title, plain(row["failed"], "red"))
        return
    words = [f"{row['tokens_per_s']:,.0f} tokens/s"]
    words += [f"generate {row['generate_tokens_per_s']:,.0f}"] if "generate_tokens_per_s" in row else []
    words += [f"{100 * row['share_of_peak']:.0f} % of the peak"] if "share_of_peak" in row else []
    words += [f"{row['gigabytes']:.1f} GB"] if "gigabytes" in row else []
    words += [f"estimate / measured {row['estimate_by_measured']:.2f}"] if "estimate_by_measured" in row else []
    out.print(title, ", ".join(words))


# --- the sandbox ------------------------------------------------------------------------------------------------------


def _chosen(only: list[str] | None) -> list[Program]:
    from ..registries import nearest
    from ..sandbox.doctor import programs

    with usage():
        known = {program.name: program for program in programs()}
        if unknown := [name for name in only or () if name not in known]:
            stop(f"--only: there is no hostile program {unknown[0]!r}; {nearest(unknown[0], known)}")
    return [known[name] for name in only or known]


def _print_layers(able: Capabilities) -> None:
    for layer, reason in able.layers.items():
        state = plain("missing", "red") if reason else plain("works", "green")
        out.print(f"{layer:11}", state, *(["", reason] if reason else []))
    if able.missing:
        out.print(plain(able.missing, "yellow"))


def _without(layer: str) -> str:
    return f" without {layer}" if layer else ""


def _plain(examinations: dict[str, Examination]) -> dict[str, Any]:
    whole = examinations[""]
    tried = {f.program.name: {"outcome": f.verdict.outcome, "problems": f.problems} for f in whole.findings}
    without = {
        layer: {**examination.counts, "problems": examination.problems, "not_tried": examination.not_tried}
        for layer, examination in examinations.items()
        if layer
    }
    return {"programs": tried, "left": whole.left, "not_tried": whole.not_tried, "without": without}


def _print(layer: str, examination: Examination) -> None:
    for name, problems in examination.problems.items():
        out.print(plain(f"{name}{_without(layer)}:", "red"), "; ".join(problems))
    skipped = len(examination.not_tried)
    rest = f"; {skipped} that try to escape were not run, because nothing would stop them" if skipped else ""
    held = sum(not finding.problems for finding in examination.findings)
    out.print(f"{held} of {len(examination.findings)} hostile programs stopped{_without(layer)}{rest}")


def _references() -> dict[str, Job]:
    """Return the reference solutions of the code tasks that need no download, by environment and task."""
    from ..envs.coding import reward
    from ..envs.registration import make

    jobs: dict[str, Job] = {}
    for env_id in _WITH_REFERENCES:
        env: Any = make(env_id, split="all")
        for item in env.items:
            program = env.program(item, dict(zip(env.possible_agents, item.reference, strict=True)))
            jobs[f"{env_id} {item.id}"] = reward.job(item, program.source)
    return jobs


def _failed(honest: dict[str, Job], advance: Advance) -> list[str]:
    from ..sandbox import SandboxPool

    failed: list[str] = []
    with SandboxPool(allow_weak=True) as pool:
        for first in range(0, len(honest), _AT_ONCE):
            names = list(honest)[first : first + _AT_ONCE]
            verdicts = pool.run([honest[name] for name in names])
            failed += [name for name, verdict in zip(names, verdicts, strict=True) if verdict.outcome != "passed"]
            advance(len(names), f"{len(failed)} failed")
    return failed
