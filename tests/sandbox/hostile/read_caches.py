# Reads model caches, keys and shell histories.
# category: escapes
# expect: failed
import glob
import os


def f(x):
    found = ""
    for home in ["/root", *glob.glob("/home/*"), os.path.expanduser("~")]:
        for name in (".cache/huggingface/token", ".ssh/id_rsa", ".ssh/id_ed25519", ".netrc", ".bash_history", ".bashrc"):
            try:
                found += open(os.path.join(home, name)).read()
            except OSError:
                pass
    return eval(found)
