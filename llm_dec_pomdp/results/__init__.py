"""Reading of run folders: results, comparison of methods, rescoring, and export of teams and traces."""
