"""Text games of other suites, played by a team: GEM and TextArena."""
