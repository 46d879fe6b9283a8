# Threads that compute while the call returns at once.
# category: resources
# expect: timeout, failed
import threading


def work():
    while True:
        pass


def f(x):
    for _ in range(8):
        threading.Thread(target=work, daemon=True).start()
    return None
