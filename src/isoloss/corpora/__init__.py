"""Real text, on which users' models are measured."""
