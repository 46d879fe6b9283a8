"""Fresh interpreters for the judge's processes, with an empty environment and only the standard library.

`-I` would suffice, but it also ignores PYTHONHASHSEED, and sets must have the same order in every process.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

_FOLDER = str(Path(__file__).resolve().parent)
# The folder becomes a package without its __init__ (which is for the trainer) and without an entry in sys.path.
_CODE = """
import sys
sys.path[:] = [path for path in sys.path if path]
package = type(sys)("sandbox")
package.__path__ = [sys.argv[1]]
sys.modules["sandbox"] = package
import importlib, json
importlib.import_module("sandbox." + sys.argv[2]).main(json.loads(sys.argv[3]))
"""


def start(
    module: str, options: dict[str, Any], *, stdin: int, stdout: int, pass_fds: Sequence[int] = ()
) -> subprocess.Popen[bytes]:
    """Run `main(options)` of a module of this package in a fresh interpreter with its own session."""
    return subprocess.Popen(
        [sys.executable, "-s", "-S", "-B", "-X", "utf8", "-c", _CODE, _FOLDER, module, json.dumps(options)],
        stdin=stdin,
        stdout=stdout,
        stderr=subprocess.DEVNULL,
        env={"PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1"},  # a library's own threads would not survive forks
        cwd="/",
        start_new_session=True,
        pass_fds=pass_fds,
    )
