"""Tasks about when to stop; `wrappers.stopping` lets teams of any task stop."""
