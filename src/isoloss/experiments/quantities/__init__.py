"""What experiments measure of a checkpoint, one quantity a file."""
