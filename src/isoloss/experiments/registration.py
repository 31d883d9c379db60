"""When the claims were fixed: named here, so that anyone can compare them with those that are judged."""

REGISTERED = "443864760435bf2251e1dfb5e00d411cf83d1d99"
"""The commit whose docs/claims.md says every claim as it is judged.

It is older than the first run with a seed that the scales laptop or night report. A claim that is changed
after that needs fresh seeds, and a commit of its own to be named here: commit the claims, then name that.
"""
