"""Figures and tables as experiments: the runs, the claims with their bounds, and the panels, a file each."""
