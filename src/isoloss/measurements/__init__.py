"""One file a quantity of the paper."""
