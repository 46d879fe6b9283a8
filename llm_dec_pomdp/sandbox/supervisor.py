"""The process that starts zygotes for a judge, because a confined judge cannot start processes.

It loads the standard library once, so that a zygote is a fork. It never receives a test or a program, and runs as long
as its judge. Orders are one byte; there are no answers.

| order | meaning |
|---|---|
| "z", one descriptor | end the zygote; start another one on this socket |
| "r" | the trainer has gone: at the end, also remove the pool's folder |
| end of input | end the zygote, remove its folder, exit |
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import shutil
import signal
import socket
import sys
from pathlib import Path
from typing import Any

from . import confine
from .zygote import Zygote, descriptor_of, empty, end_orphans

# Modules that solutions usually import: loaded once here and shared by every forked process.
PRELOAD = (
    "abc argparse array ast asyncio base64 binascii bisect builtins bz2 calendar cmath collections collections.abc "
    "contextlib copy csv ctypes dataclasses datetime decimal difflib enum fractions functools hashlib heapq html "
    "inspect io itertools json keyword lzma math numbers operator pathlib pickle pprint queue random re secrets "
    "shutil sqlite3 statistics string struct tempfile textwrap threading time timeit traceback types typing "
    "unicodedata unittest unittest.mock uuid warnings weakref zlib zoneinfo"
).split()


class Supervisor:
    """The main loop of the supervisor process and its state."""

    def __init__(self, judge: socket.socket, folder: str, site: list[str], layers: list[str]) -> None:
        self.judge = judge
        self.folder = folder
        self.site = site
        self.layers = layers
        self.zygote = 0
        self.proc = confine.processes()
        self.trainer_gone = False

    def serve(self) -> None:
        """Execute orders until the judge closes the connection."""
        while True:
            order, ancillary, _, _ = self.judge.recvmsg(1, socket.CMSG_SPACE(4))
            if order == b"z":
                self.end()
                self.start(descriptor_of(ancillary))
            elif order == b"r":
                self.trainer_gone = True
            else:
                return

    def start(self, descriptor: int) -> None:
        """Fork a zygote that uses this socket."""
        self.zygote = os.fork()
        if self.zygote:
            os.close(descriptor)
            return
        code = 1
        try:
            self.judge.close()
            with socket.socket(fileno=descriptor) as control:
                Zygote(control, self.folder, self.site, self.layers).run()
            code = 0
        finally:
            os._exit(code)

    def end(self) -> None:
        """Kill the zygote and its remaining processes, and empty its folder."""
        if self.zygote:
            os.kill(self.zygote, signal.SIGKILL)
            os.waitpid(self.zygote, 0)
            self.zygote = 0
            end_orphans(self.proc)
        with contextlib.suppress(OSError):
            empty(self.folder)

    def leave(self) -> None:
        """End the zygote and remove its folder; also the pool's folder if the trainer has gone and no judge is left."""
        self.end()
        shutil.rmtree(self.folder, ignore_errors=True)
        root = Path(self.folder).parent
        if self.trainer_gone and [path.name for path in root.iterdir()] in ([], ["lock"]):
            shutil.rmtree(root, ignore_errors=True)


def import_site(site: list[str]) -> None:
    """Allow imports of installed packages; import NumPy now, because it could not start its threads later."""
    if site:
        sys.path += site
        with contextlib.suppress(ImportError):
            importlib.import_module("numpy")


def main(options: dict[str, Any]) -> None:
    """Serve one judge."""
    sys.dont_write_bytecode = True
    for name in PRELOAD:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    import_site(options["site"])
    confine.adopt_orphans()
    gc.freeze()
    supervisor = Supervisor(
        socket.socket(fileno=options["judge"]), options["folder"], options["site"], options["layers"]
    )
    try:
        supervisor.serve()
    finally:
        supervisor.leave()
