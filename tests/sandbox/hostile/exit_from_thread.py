# A thread that started at import ends the process with success.
# category: lies
# expect: died
import os
import threading
import time


def end():
    time.sleep(0.05)
    os._exit(0)


threading.Thread(target=end, daemon=True).start()


def f(x):
    time.sleep(1)
    return x
