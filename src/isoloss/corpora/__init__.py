"""Real text, on which users' own models are measured."""
