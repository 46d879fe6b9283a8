# One file without end.
# category: resources
# expect: failed
def f(x):
    with open("big", "wb") as file:
        while True:
            file.write(b"x" * (1 << 20))
