"""How often the claims of a shipped result have been judged, and what that leaves of its verdicts.

Where runs left claims open, they were judged again on other seeds alone. Each round may give a false verdict,
so that a reader may want the probability of that shared among all of them.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

from results_kept import of_kind

from isoloss.experiments.claims import CONFIDENCE


def times_judged(kept: dict[str, Any]) -> int:
    """How often the claims of a result have been judged, each time on other seeds."""
    return 1 + len(kept["earlier_seeds"])


def decided_at_shared_error(kept: dict[str, Any], kind: str) -> int:
    """How many of its claims are decided if the probability of error is shared evenly among all rounds.

    Exact for Holm's procedure, whose adjusted p-values are compared with any level.
    """
    level = (1 - CONFIDENCE) / times_judged(kept)
    return sum(
        claim["verdict"] != "inconclusive" and claim["p_value"] <= level
        for claim in of_kind(kept["result"], kind)
    )


def rounds_told(kept: dict[str, Any]) -> str:
    """A sentence on the rounds of one result; nothing if there was one, or nothing is claimed."""
    effects = of_kind(kept["result"], "effect")
    if times_judged(kept) == 1 or not effects:
        return ""
    before = "; ".join(map(ranges, kept["earlier_seeds"]))
    return (
        f" Its claims have been judged in {times_judged(kept)} rounds, before on seeds {before}: with the "
        f"probability of error shared among these rounds, {decided_at_shared_error(kept, 'effect')} of "
        f"{len(effects)} effects would be decided."
    )


def all_rounds_told(kept: Sequence[dict[str, Any]], scales: Sequence[str]) -> str:
    """What sharing the error among rounds leaves of all effects, by scale."""
    told = []
    for scale in scales:
        of_scale = [each for each in kept if each["scale"] == scale]
        again = sum(times_judged(each) > 1 for each in of_scale)
        decided = sum(decided_at_shared_error(each, "effect") for each in of_scale)
        effects = sum(len(of_kind(each["result"], "effect")) for each in of_scale)
        told.append(
            f"{decided} of {effects} effects at {scale}, where {again} of {len(of_scale)} experiments have "
            "had several"
        )
    return (
        "Where runs had left claims open, an experiment was run again on other seeds and [its claims judged "
        "anew](limits.md). Were the probability of error shared among the rounds of each, those decided "
        f"would be {', and '.join(told)}.\n"
    )


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
