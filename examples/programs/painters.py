"""A program with two roles that choose among few texts: only the scout sees the colour, and only the painter paints.

llm-dec-pomdp train examples/programs/painters.py:solve --steps 40
"""

COLOURS = ("red", "green", "blue")
WORDS = ("one", "two", "three")
ROLES = ["scout", "painter"]
CHOICES = {"scout": WORDS, "painter": COLOURS}
TASKS = [{"id": colour, "prompt": f"The wall has to be {colour}."} for colour in COLOURS]


def solve(task, roles):
    """Ask the scout for a signal, and let the painter paint by it."""
    signal = roles["scout"].chat(task["prompt"])
    return roles["painter"].chat(f"The scout signals: {signal}. Which colour?")


def score(task, result):
    """Return 1 if the wall has its colour."""
    return float(result == task["id"])
