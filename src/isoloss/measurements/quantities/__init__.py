"""What is measured of a model, one quantity a file."""
