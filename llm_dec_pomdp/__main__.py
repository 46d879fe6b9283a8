"""`python -m llm_dec_pomdp`: the command line."""

from __future__ import annotations

import sys
from pathlib import Path

from .cli import main

if __name__ == "__main__":
    if not sys.flags.safe_path and sys.path[0] == str(Path.cwd()):
        del sys.path[0]  # the working folder, which `python -m` adds; see `cli.trust`
    main()
