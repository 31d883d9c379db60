"""The experiments, a file each: `figure_1.py` is `figure-1`, and is listed by being in this folder."""
