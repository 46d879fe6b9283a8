# Writes a file outside of its folder.
# category: escapes
# expect: failed
def f(x):
    with open("@OUTSIDE@/escaped", "w") as file:
        file.write("escaped")
    return None
