# Learns the size of a file that it may not read.
# category: escapes
# expect: failed
# needs: namespaces
import os


def f(x):
    try:
        size = os.stat("@SECRET@").st_size
    except OSError:
        return None
    raise ValueError(f"@ACHIEVED@: {size} bytes")
