# The entry point itself is a mock.
# category: lies
# expect: unsupported
from unittest.mock import MagicMock

f = MagicMock()
f.return_value.__eq__ = lambda a, b: True
