# Counts events of the processor.
# category: escapes
# expect: failed
import ctypes
import platform
import struct


def f(x):
    attributes = ctypes.create_string_buffer(struct.pack("IIQ", 1, 128, 9).ljust(40, b"\0") + struct.pack("Q", 0x61), 128)
    number = {"x86_64": 298, "aarch64": 241}[platform.machine()]
    if ctypes.CDLL(None).syscall(ctypes.c_long(number), attributes, 0, -1, -1, ctypes.c_long(0)) >= 0:
        raise RuntimeError("@ACHIEVED@")
    return None
