# sys.exit(0) at import, so that the exit code says success.
# category: lies
# expect: load_error
import sys

sys.exit(0)
