"""Ctrl-C and SIGTERM."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from llm_dec_pomdp.storage.signals import Interrupted, finishing, stopping_at_once

# The main thread is in one long instruction, as in a pass through a large model.
BUSY = """
import hashlib, sys
from llm_dec_pomdp.storage.signals import before_the_end, finishing, stopping_at_once

def say(text):
    print(text, flush=True)

with stopping_at_once(say), finishing("step 3"), before_the_end(lambda: say("left in order")):
    say("ready")
    hashlib.pbkdf2_hmac("sha256", b"", b"", 500_000_000)
"""


def test_a_busy_process_answers_the_first_signal_and_ends_at_the_second() -> None:
    with subprocess.Popen([sys.executable, "-c", BUSY], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGTERM)
        assert process.stdout.readline().startswith("finishing step 3;")
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 128 + signal.SIGINT  # the long instruction takes minutes
        assert process.stdout.read() == "left in order\n"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_work_that_nothing_has_to_finish(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with pytest.raises(Interrupted) as caught, stopping_at_once():
        os.kill(os.getpid(), number)
    assert (caught.value.code, caught.value.reason) == (75, number.name)
    assert signal.getsignal(number) is before


def test_work_that_is_finished_first_sees_the_signal_and_then_ends() -> None:
    with pytest.raises(Interrupted), stopping_at_once(), finishing("step 1") as request:
        assert request.signal == ""
        os.kill(os.getpid(), signal.SIGTERM)
        assert request.signal == "SIGTERM"
