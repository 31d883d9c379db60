"""Forward passes whose last block is computed at one position of each sentence."""
