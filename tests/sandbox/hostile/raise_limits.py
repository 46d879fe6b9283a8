# Raises its own limits.
# category: escapes
# expect: failed, load_error
import resource


def f(x):
    for kind in (resource.RLIMIT_AS, resource.RLIMIT_CPU, resource.RLIMIT_NOFILE, resource.RLIMIT_FSIZE):
        try:
            resource.setrlimit(kind, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
            return "raised"
        except (OSError, ValueError):
            pass
    return None
