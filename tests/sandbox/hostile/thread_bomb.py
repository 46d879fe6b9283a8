# Starts threads until there is no room for another.
# category: resources
# expect: failed, timeout, died
import threading
import time


def f(x):
    for _ in range(3000):
        threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()
