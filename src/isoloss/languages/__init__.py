"""Languages: they sample sentences and know the exact law of every word."""
