"""Languages: they sample sentences and know the exact distribution of every word."""
