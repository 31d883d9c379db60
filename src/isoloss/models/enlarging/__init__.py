"""Embeds a small transformer in a larger one that computes the same function (paper B.4)."""
