"""What can be measured of a model on any sentences, one quantity per file."""
