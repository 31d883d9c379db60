"""Dynamic programs: pure functions on tensors."""
