# Learns the numbers of other processes by names in /proc.
# category: escapes
# expect: failed
# needs: namespaces
import os


def f(x):
    found = []
    for number in [*range(2, 400), @TRAINER@]:
        try:
            os.stat(f"/proc/{number}")
            found.append(number)
        except OSError:
            pass
    if found:
        raise ValueError("@ACHIEVED@")
