"""Provenance of a result: the versions of code and packages, and the machine."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import subprocess
from importlib import metadata
from pathlib import Path
from typing import Any

from ..__about__ import __version__
from ..sandbox import capabilities

_MAIN = ("torch", "transformers", "peft", "numpy", "pettingzoo", "gymnasium")


def versions() -> dict[str, Any]:
    """Return the versions of this package, its commit and all installed packages, the machine, and the sandbox."""
    return {
        "llm_dec_pomdp": __version__,
        "commit": commit(Path(__file__).parent),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "accelerator": _accelerator(),
        "judge": capabilities().to_dict(),
        **{name: metadata.version(name) for name in _MAIN},
        "packages": dict(
            sorted((m["Name"], m["Version"]) for m in (d.metadata for d in metadata.distributions()) if m["Name"])
        ),
    }


def commit(folder: Path) -> str:
    """Return the git commit of the code in a folder, with "-dirty" if files differ from it.

    It is the commit of the repository that tracks the folder, or the one that pip recorded when it installed the
    package from a repository; else "unknown".
    """
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        if _git(folder, "ls-files", "--", "."):  # else the folder is in a repository that does not track it
            return _git(folder, "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*")
    with contextlib.suppress(metadata.PackageNotFoundError, ValueError, KeyError):
        source = metadata.distribution("llm-dec-pomdp").read_text("direct_url.json")
        return str(json.loads(source or "{}")["vcs_info"]["commit_id"])
    return "unknown"


def _git(folder: Path, *arguments: str) -> str:
    command = ["git", "-C", str(folder), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.strip()


def _processor() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor()


def _accelerator() -> str:
    """Return the GPUs with their memory and the version of CUDA; "none" without a GPU."""
    import torch

    if not torch.cuda.is_available():
        return "none"
    names: list[str] = []
    for number in range(torch.cuda.device_count()):
        memory = torch.cuda.mem_get_info(number)[1] / 2**30
        names.append(f"{torch.cuda.get_device_name(number)} ({memory:.0f} GiB)")
    return f"{', '.join(names)}, CUDA {torch.version.cuda}"
