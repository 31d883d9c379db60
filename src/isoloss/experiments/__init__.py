"""The experiments, one file per figure or table, with their scales, claims and runner."""
