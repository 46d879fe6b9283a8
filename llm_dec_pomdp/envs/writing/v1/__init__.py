"""The writing environments with a reward that counts words and does not reward copies and lists."""
