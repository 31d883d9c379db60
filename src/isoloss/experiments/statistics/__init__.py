"""The words in which claims are written: statistics of runs, their errors over seeds, and what is claimed."""
