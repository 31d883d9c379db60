"""Pre-training: the stream of sentences, the training loop, update rules and checkpoints."""
