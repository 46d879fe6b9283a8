"""Documents that several writers write with an editor."""
