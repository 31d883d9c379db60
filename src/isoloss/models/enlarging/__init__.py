"""A small transformer as a special case of a larger one (paper B.4)."""
