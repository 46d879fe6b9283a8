"""Episodes in a browser."""
