"""Long conversations that agents remember by notes."""
