"""What lies on disk: files that survive a loss of power, folders of runs, and the signals that end a run in order."""
