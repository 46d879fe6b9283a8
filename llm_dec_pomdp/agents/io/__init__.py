"""Models and teams to and from disk: `models` loads a model by name, `load` builds teams, `save` writes them."""
