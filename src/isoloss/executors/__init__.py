"""Jobs done side by side, on this machine, through Ray or through SLURM, whatever the jobs are."""
