"""Each lemma and theorem as a program that can fail."""
