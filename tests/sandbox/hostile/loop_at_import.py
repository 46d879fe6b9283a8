# Endless loop at import.
# category: resources
# expect: timeout
while True:
    pass
