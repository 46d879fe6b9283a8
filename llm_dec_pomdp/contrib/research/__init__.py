"""Questions that a main agent answers from the reports of sub-agents, which search, query and compute."""
