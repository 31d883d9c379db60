"""One file a figure or table; scales, claims, runner."""
