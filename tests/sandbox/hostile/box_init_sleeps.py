# It waits when an object is made, which takes no processor time.
# category: modules
# expect: failed,timeout
import time
class Box:
    def __init__(self, size):
        time.sleep(31536)
