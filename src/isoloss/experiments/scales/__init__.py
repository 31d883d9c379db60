"""The scales of the experiments, one per file."""
