# os._exit(0) at import.
# category: lies
# expect: died
import os

os._exit(0)
