"""The page of all claims, docs/claims.md, from the code: `make claims` writes it.

It is kept beside the code and a test compares the two, so that no sentence, statistic or threshold can change
without the change being seen.
"""

import os
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path

from isoloss.experiments.claims import CONFIDENCE, Claim
from isoloss.experiments.design import every_experiment
from isoloss.experiments.experiment import Experiment
from isoloss.experiments.scale import scale_named

PAGE = Path(__file__).parent.parent / "claims.md"
MOST_ENDS = 2
"""More ways in which runs end say nothing of which checkpoints a claim reads."""
INTRODUCTION = f"""\
# The claims

Every claim that the runs at the scales `laptop` and `night` can contradict, with its statistic, the range in
which the statistic is claimed to lie, and the paper's own number. All of this was fixed before the runs on
which the claim is judged. This page is generated from the code, and a test fails if the two differ. The
wording has been edited since then; statistics and bounds have not.

A statistic's interval comes from resamples of whole seeds; [what is measured](what-is-measured.md) defines
it, and the words that statistics share, such as dots, starts and a common loss. A claim is *supported* if
the whole interval lies in the claimed range, *not supported* if none of it does, and *inconclusive*
otherwise. A bound other than 0 is the smallest effect of interest; the reason for it follows the bound. A
statistic without a unit is a correlation, an exponent, or a share: the bound 0.005 of a premise is 0.5 %.

*Premises* are conditions for seeing the effects, such as a common loss, rather than discoveries: each is
judged on its own, at {100 * CONFIDENCE:g} %. The *effects* of one experiment are one family, judged
together by Holm's procedure: with a probability of at least {100 * CONFIDENCE:g} %, none of them is wrongly
called supported or not supported. A claim that is *withdrawn* is no longer judged; the reason is given.

Each experiment's page shows what its effects would be if accuracy were exactly −log2 of the trace, exactly
−log2 of KL, or independent of both; and, of several languages, if it were the one on some and the other
on the rest. An effect that would be supported in all of these cases, or in none, is refused before
anything is run, and so is an effect that repeats another's statistic under a second name.
"""


def claims_page(laptop: Sequence[Experiment], night: Sequence[Experiment]) -> str:
    """The page's text, from the experiments at both scales."""
    at_night = {each.name: each for each in night}
    sections = (_section(each, at_night[each.name]) for each in laptop if each.claims)
    return "\n".join([INTRODUCTION, *sections])


def both_scales() -> tuple[Sequence[Experiment], Sequence[Experiment]]:
    """What the page is made of."""
    return every_experiment(scale_named("laptop")), every_experiment(scale_named("night"))


def _section(laptop: Experiment, night: Experiment) -> str:
    heading = f"## {laptop.name}: {laptop.title[0].lower()}{laptop.title[1:]}\n{_checkpoints(laptop, night)}"
    at_night = {claim.name: _entry(claim) for claim in night.claims}
    at_both = {
        claim.name for claim in laptop.claims if at_night.get(claim.name, _entry(claim)) == _entry(claim)
    }
    first = (_entry(claim, "" if claim.name in at_both else ", at `laptop`") for claim in laptop.claims)
    more = (_entry(claim, ", at `night`") for claim in night.claims if claim.name not in at_both)
    return "\n".join([heading, *first, *more])


def _checkpoints(laptop: Experiment, night: Experiment) -> str:
    """From which step on checkpoints are judged, and where runs end; empty where they differ in many ways."""
    scales = ((name, _saturated(each)) for name, each in (("laptop", laptop), ("night", night)))
    steps = [f"{listed} (`{name}`)" for name, listed in scales if listed]
    return f"\nCheckpoints judged: those of steps {' and '.join(steps)}.\n" if steps else ""


def _saturated(experiment: Experiment) -> str:
    """The first and the last step, and where these differ of which runs, by what their names begin with."""
    found: dict[tuple[int, int], set[str]] = {}
    for run in experiment.runs:
        ends = run.saturated_from, run.checkpoint_steps[-1]
        found.setdefault(ends, set()).add(re.sub("-?(width|seed)-.*", "", run.name))
    if len(found) > MOST_ENDS or any(not 0 < first < last for first, last in found):
        return ""
    steps = {f"{first:,} to {last:,}": sorted(names) for (first, last), names in found.items()}
    if len(steps) == 1:
        return next(iter(steps))
    return ", ".join(f"{each} of {', '.join(names)}" for each, names in steps.items())


def _entry(claim: Claim, where: str = "") -> str:
    why = f": {claim.reason}" if claim.reason else ""
    return (
        f"**{claim.sentence}** (`{claim.name}`, {claim.kind}{where})\n\n"
        f"- statistic: {claim.measure}\n"
        f"- claimed: {f'{claim.claimed} {claim.unit}'.strip()}{why}\n"
        f"- the paper: {claim.paper}\n" + (f"- withdrawn: {claim.withdrawn}\n" if claim.withdrawn else "")
    )


if __name__ == "__main__":
    # What tasks there are depends on the texts that a user's cache has.
    os.environ["XDG_CACHE_HOME"] = tempfile.mkdtemp()
    PAGE.write_text(claims_page(*both_scales()))
