"""Fresh sentences, one loop, update rules, checkpoints."""
