# Enters new namespaces, to be root there.
# category: escapes
# expect: failed
import ctypes


def f(x):
    libc = ctypes.CDLL(None, use_errno=True)
    entered = libc.unshare(0x10000000 | 0x20000)
    mounted = libc.mount(b"none", b"@OUTSIDE@", b"tmpfs", 0, None)
    return "entered" if entered == 0 or mounted == 0 else None
