"""Measurements of one model, or of several on the same sentences."""
