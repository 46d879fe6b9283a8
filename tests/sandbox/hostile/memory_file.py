# Executes a file that exists in memory only.
# category: escapes
# expect: failed
import os


def f(x):
    descriptor = os.memfd_create("program")
    os.write(descriptor, b"#!/bin/sh\ntouch @OUTSIDE@/escaped\n")
    os.execve(descriptor, ["program"], {})
