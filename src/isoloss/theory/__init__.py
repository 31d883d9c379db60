"""Numerical tests of each lemma and theorem, which can fail."""
