"""What two or more experiments share, each with its settings at every scale."""
