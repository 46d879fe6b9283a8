"""Tasks about when to stop; with `wrappers.stopping` any task may be stopped."""
