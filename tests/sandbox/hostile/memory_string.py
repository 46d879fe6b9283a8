# String that doubles.
# category: resources
# expect: failed, timeout
def f(x):
    text = "x" * 1024
    while True:
        text += text
