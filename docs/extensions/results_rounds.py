"""How often the claims of a shipped result have been judged, and what that leaves of its verdicts.

Where runs left claims open, they were judged again on other seeds alone. Each round may give a false verdict,
so that a reader may want the probability of that shared among all of them.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

from results_shipped import of_kind

from isoloss.experiments.claims import CONFIDENCE
from isoloss.results.verdict import holm_levels


def times_judged(shipped: dict[str, Any]) -> int:
    """How often the claims of a result have been judged, each time on other seeds."""
    return 1 + len(shipped["earlier_seeds"])


def decided_at_shared_error(shipped: dict[str, Any], kind: str) -> int:
    """How many of its claims are decided if the probability of error is shared evenly among all rounds.

    Exact for Holm's procedure, whose adjusted p-values are compared with any level.
    """
    level = (1 - CONFIDENCE) / times_judged(shipped)
    return sum(
        claim["verdict"] != "inconclusive" and claim["p_value"] <= level
        for claim in of_kind(shipped["result"], kind)
    )


def raw_p_values(result: dict[str, Any]) -> dict[str, float]:
    """The largest p-value that each effect of one family can have had before Holm's adjustment, by name.

    An adjusted one is its own times the number of those not smaller, or another's if that is larger.
    """
    tested = sorted((claim for claim in result["claims"] if claim["tested"]), key=lambda c: c["p_value"])
    return {claim["name"]: claim["p_value"] / (len(tested) - rank) for rank, claim in enumerate(tested)}


def decided_in_one_family(shipped: Sequence[dict[str, Any]]) -> tuple[int, int]:
    """How many effects are decided at least if all results' are one family, and how many there are."""
    p_values = [
        raw_p_values(each["result"])[claim["name"]]
        for each in shipped
        for claim in of_kind(each["result"], "effect")
    ]
    levels = holm_levels(p_values, 1 - CONFIDENCE)
    return sum(p <= level for p, level in zip(p_values, levels, strict=True)), len(p_values)


def decided_by_family(shipped: Sequence[dict[str, Any]], scales: Sequence[str]) -> str:
    """A row a scale: what is decided within each experiment, among all rounds, and in one family of all."""
    rows = [
        "| scale | effects | decided | decided as supported | decided if rounds share the 5 % | decided if "
        "all experiments are corrected together |",
        "|---|---|---|---|---|---|",
    ]
    for scale in scales:
        of_scale = [each for each in shipped if each["scale"] == scale]
        verdicts = [c["verdict"] for each in of_scale for c in of_kind(each["result"], "effect")]
        decided = len(verdicts) - verdicts.count("inconclusive")
        shared = sum(decided_at_shared_error(each, "effect") for each in of_scale)
        together, effects = decided_in_one_family(of_scale)
        rows.append(
            f"| {scale} | {effects} | {decided} | {verdicts.count('supported')} | {shared} | {together} |"
        )
    return "\n".join(rows) + "\n"


def ranges(seeds: Iterable[int]) -> str:
    """Seeds in words, such as “201 to 203, 205”."""
    first, *rest = sorted(seeds)
    parts = [[first, first]]
    for last, seed in pairwise([first, *rest]):
        if seed == last + 1:
            parts[-1][1] = seed
        else:
            parts.append([seed, seed])
    return ", ".join(str(low) if low == high else f"{low} to {high}" for low, high in parts)
