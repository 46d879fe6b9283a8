# It waits in a call for a thread that sleeps.
# category: resources
# expect: failed,timeout
import threading, time
def f(x):
    thread = threading.Thread(target=time.sleep, args=(31536,))
    thread.start()
    thread.join()
