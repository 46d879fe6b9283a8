# Endless loop that swallows every exception.
# category: resources
# expect: timeout, failed
def f(x):
    while True:
        try:
            while True:
                pass
        except BaseException:
            continue
