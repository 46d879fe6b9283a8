# Starts 20,000 threads with small stacks, from many threads at once.
# category: resources
# expect: failed, timeout, died
import threading
import time

threading.stack_size(32768)
ALIVE = []


def start():
    try:
        for _ in range(20_000):
            threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()
            ALIVE.append(1)
            if len(ALIVE) > 200:
                return
    except RuntimeError:
        pass


def f(x):
    starters = [threading.Thread(target=start, daemon=True) for _ in range(20)]
    for starter in starters:
        starter.start()
    for starter in starters:
        starter.join()
    if len(ALIVE) > 200:
        raise RuntimeError("@ACHIEVED@")
    return None
