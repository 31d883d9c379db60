"""Languages that can be sampled and whose word distributions are known exactly."""
