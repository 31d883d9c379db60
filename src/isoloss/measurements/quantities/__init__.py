"""The quantities that can be measured on a model, one per file."""
