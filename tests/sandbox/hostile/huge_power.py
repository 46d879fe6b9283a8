# 9**9**9.
# category: resources
# expect: timeout, failed
def f(x):
    n = 9
    return n**n**n
