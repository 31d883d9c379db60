"""Trace, norms and sharpness of any torch model."""
