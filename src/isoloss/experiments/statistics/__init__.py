"""The building blocks of claims: statistics of runs and their errors over seeds."""
