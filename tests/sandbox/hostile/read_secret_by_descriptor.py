# Reads a file of the user by way of directory descriptors and links in /proc.
# category: escapes
# expect: failed
import os


def f(x):
    found = ""
    for path in ("/proc/self/root@SECRET@", "/proc/1/root@SECRET@", "/proc/@TRAINER@/root@SECRET@", "/proc/self/cwd/../..@SECRET@"):
        try:
            with open(path) as file:
                found += file.read()
        except OSError as error:
            found += str(error)
    os.chdir("/")
    folder = os.open(os.path.dirname("@SECRET@"), os.O_RDONLY)
    raise ValueError(found + open(os.open(os.path.basename("@SECRET@"), os.O_RDONLY, dir_fd=folder)).read())
