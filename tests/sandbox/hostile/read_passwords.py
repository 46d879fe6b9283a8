# Reads the list of users.
# category: escapes
# expect: failed
def f(x):
    with open("/etc/passwd") as file:
        raise ValueError(file.read())
