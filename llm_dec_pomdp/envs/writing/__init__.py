"""Two agents write two texts that belong together."""
