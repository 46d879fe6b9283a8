# Reads a file of the user.
# category: escapes
# expect: failed
def f(x):
    with open("@SECRET@") as file:
        raise ValueError(file.read())
