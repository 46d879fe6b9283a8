# Endless loop in a call.
# category: resources
# expect: timeout, failed
def f(x):
    while True:
        pass
