# os._exit(0) in a call.
# category: lies
# expect: died
import os


def f(x):
    os._exit(0)
