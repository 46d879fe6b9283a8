# The module ends the process at import.
# category: modules
# expect: failed,died
import os
os._exit(0)
