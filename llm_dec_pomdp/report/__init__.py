"""Results for people: tables, figures, pages, and the viewer of episodes."""
