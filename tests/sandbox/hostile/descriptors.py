# Opens files until there are no descriptors.
# category: resources
# expect: failed
kept = []


def f(x):
    while True:
        kept.append(open("/dev/null"))
