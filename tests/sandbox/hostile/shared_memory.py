# Leaves shared memory behind.
# category: escapes
# expect: failed
from multiprocessing import shared_memory


def f(x):
    memory = shared_memory.SharedMemory(name="llm-dec-pomdp-escaped", create=True, size=1 << 16)
    memory.buf[:7] = b"escaped"
    return None
