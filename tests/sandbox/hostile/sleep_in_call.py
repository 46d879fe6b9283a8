# Sleeps in a call.
# category: resources
# expect: timeout
import time


def f(x):
    time.sleep(1000)
