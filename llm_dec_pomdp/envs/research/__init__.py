"""Questions that a main agent answers from what sub-agents find, read and report."""
