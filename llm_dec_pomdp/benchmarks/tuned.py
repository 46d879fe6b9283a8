"""Tuned settings: files with the options of `train` with which a published result was trained.

They are in `configs/ENVIRONMENT/NAME.toml`; a comment in each file has the result and its page. Only settings that were
measured are there.
"""

from __future__ import annotations

from pathlib import Path

from ..config import ConfigError
from ..registries import nearest

_CONFIGS = Path(__file__).parent / "configs"


def tuned() -> dict[str, list[str]]:
    """Return the names of the tuned settings of each environment that has some."""
    files = sorted(_CONFIGS.glob("*/*.toml"))
    return {
        env_id: [f.stem for f in files if f.parent.name == env_id]
        for env_id in dict.fromkeys(f.parent.name for f in files)
    }


def tuned_file(name: str, env_id: str) -> Path:
    """Return the file of settings: the tuned settings of this name for an environment, or a path that ends in .toml.

    Raises:
        ConfigError: The environment has no settings of this name; the message lists those that it has.
    """
    if name.endswith(".toml"):
        return Path(name)
    known = tuned().get(env_id, [])
    if name not in known:
        has = f"{nearest(name, known)}; it has {', '.join(known)}" if known else f"{env_id} has none"
        raise ConfigError(f"there are no tuned settings {name!r} for {env_id}: {has}; or give a .toml file")
    return _CONFIGS / env_id / f"{name}.toml"
