"""Bounds and claims that experiments share: one loss, near the distribution, later is flatter and better."""

ASSOCIATION = 0.25
"""Smallest difference of rank correlations, and smallest rank correlation, that counts as “much better” or
as an association."""
WHY_ASSOCIATION = (
    "half of the way from no association to a strong one (Spearman 0.5); the paper shows a far larger one "
    "and gives no number"
)
DIVERGENCE_WINDOW = 0.004
"""Largest share of the entropy that counts as having converged as the paper's models did."""
WHY_WINDOW = "four times the paper's 0.12 %, and about what its losses lie above its entropy"
