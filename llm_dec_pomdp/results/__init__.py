"""Run folders, read back: cells with their results, methods side by side, rescored texts, exported teams and traces."""
