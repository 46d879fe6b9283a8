# Starts a process with the function below subprocess.
# category: escapes
# expect: failed, died, load_error
import subprocess
import sys


def f(x):
    subprocess.Popen(["/bin/sleep", "31536"], start_new_session=True, close_fds=False)
    return None
