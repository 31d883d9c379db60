"""Figures and tables as experiments, one per file: the runs, the claims with their bounds, and the panels."""
