"""The page of all claims, docs/claims.md, from the code: `make claims` writes it.

It is kept beside the code and a test compares the two, so that no sentence, statistic or threshold can change
without the change being seen.
"""

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

from isoloss.experiments.claims import CONFIDENCE, Claim
from isoloss.experiments.design import every_experiment
from isoloss.experiments.experiment import Experiment
from isoloss.experiments.scale import scale_named

PAGE = Path(__file__).parent.parent / "claims.md"
INTRODUCTION = f"""\
# The claims

Every sentence that runs at laptop scale and of a night may contradict: its statistic, the numbers it is said
to be one of, and the paper's own number. All of it was fixed before the runs that it is judged on. This page
is written from the code, and a test fails where the two differ. The wording of sentences has been edited
since then; statistics, bounds and units have not.

A statistic's interval comes from resamples of whole seeds. A claim is *supported* where the whole interval
lies among the numbers claimed, *not supported* where none of it does, and *inconclusive* otherwise. A bound
that is not 0 is the smallest effect of interest, and the claim says why it lies there.

*Premises* are conditions under which the effects are to be seen, such as one common loss, and no
discoveries: each is judged by itself, at {100 * CONFIDENCE:g} %. The *effects* of one experiment are
one family, judged together by Holm's procedure: with probability {100 * CONFIDENCE:g} % at least,
none of them is called supported or not supported wrongly. A claim that is *withdrawn* is no longer among
them, and says why.

What an effect would be, were accuracy exactly −log2 of the trace, exactly −log2 of KL, or independent of
both, is on each experiment's page. An effect that could not fail, or could not hold, whichever it is, is
refused before anything is run, and so is one that is another's number under a second name.
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
    heading = f"## {laptop.name}: {laptop.title[0].lower()}{laptop.title[1:]}\n"
    names = {claim.name for claim in laptop.claims}
    more = (_entry(claim, ", at `night`") for claim in night.claims if claim.name not in names)
    return "\n".join([heading, *map(_entry, laptop.claims), *more])


def _entry(claim: Claim, where: str = "") -> str:
    because = f", because {claim.reason}" if claim.reason else ""
    return (
        f"**{claim.sentence}** (`{claim.name}`, {claim.kind}{where})\n\n"
        f"- statistic: {claim.measure}\n"
        f"- claimed: {f'{claim.claimed} {claim.unit}'.strip()}{because}\n"
        f"- the paper: {claim.paper}\n" + (f"- withdrawn: {claim.withdrawn}\n" if claim.withdrawn else "")
    )


if __name__ == "__main__":
    # What tasks there are depends on the texts that a user's cache has.
    os.environ["XDG_CACHE_HOME"] = tempfile.mkdtemp()
    PAGE.write_text(claims_page(*both_scales()))
