"""Results that are shipped: read from reference/, taken into it from a results folder, and put into words."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import takewhile
from pathlib import Path
from typing import Any
from unittest.mock import patch

import polars as pl
import vl_convert

from isoloss.experiments.claims import MOST_SEEDS, Claim, reading
from isoloss.experiments.design import builtin_designs, every_experiment
from isoloss.experiments.scale import scale_named
from isoloss.experiments.shared.real_text import RealTextRuns
from isoloss.experiments.shipped_results import packed_results, shipped_results
from isoloss.files import write_atomically
from isoloss.results.record import digits_that_tell, in_digits
from isoloss.results.verdict import Region
from isoloss.stored_runs.stored_run import stored_run

ROOT = Path(__file__).parent.parent.parent
SHIPPED = ROOT / "src" / "isoloss" / "reference"
SCALES = ("laptop", "night")
UNITS = {
    "percent points": "percentage points",
    "of the fall": "of the trace's fall apart",
    "of the twin's fall": "of the fall with noise",
    "a halving": "per halving of the trace",
    "a doubling": "per doubling of the trace",
}
"""Units of earlier rounds' claims whose statistic has become another since, and as they are read."""

REWORDED = Path(__file__).parent / "reworded_claims.json"
"""Words of claims that were edited since they were registered, as (before, now)."""
EARLIER = Path(__file__).parent / "earlier_rounds.json"
"""The verdicts of rounds whose results were shipped before those of other seeds took their place."""

PIXELS = 1.25
"""Of the documentation's pictures, for one of the screen: the site has them with more, and as vectors."""


def read_shipped() -> list[dict[str, Any]]:
    """The results that are shipped, an experiment and scale each, Figure 1 at laptop scale first.

    Claims are worded as they are today, unless their statistic has become another, with why those were
    withdrawn that have been since, and as `before` the verdicts of earlier rounds whose results were shipped,
    each with its seeds. `judged` are those that had not been withdrawn when they were shipped, `tested` the
    effects among them, which were judged together.
    """
    return [
        {
            "scale": scale,
            **shipped,
            "result": _as_of_today(shipped["result"], scale),
            "earlier_seeds": _earlier(design.earlier_seeds.get(scale, ()), shipped),
        }
        for scale in SCALES
        for name, design in builtin_designs().items()
        if (shipped := shipped_results(scale).get(name)) is not None
    ]


def _as_of_today(result: dict[str, Any], scale: str) -> dict[str, Any]:
    earlier = _earlier_rounds().get(scale, {}).get(result["name"], [])
    is_current = not _fresh_seeds(result, scale)
    claims = []
    for claim in result["claims"]:
        registered = registered_claims(scale)
        now = registered.get((result["name"], claim["name"])) or registered.get(("", claim["name"]))
        words = {key: _in_todays_words(claim[key]) for key in ("sentence", "paper")}
        words["unit"] = _spelt_out(claim["unit"])
        if now is not None:
            words["withdrawn"] = now.withdrawn
            if is_current or _in_todays_words(claim["measure"]) == _in_todays_words(now.measure):
                words |= {"sentence": now.sentence, "paper": now.paper, "unit": now.unit}
        tested = claim["kind"] == "effect" and not claim.get("withdrawn")
        before = [(each["seeds"], each["verdicts"].get(claim["name"])) for each in earlier]
        known = {"tested": tested, "judged": not claim.get("withdrawn")}
        claims.append({**claim, **words, **known, "before": [each for each in before if each[1]]})
    return {**result, "claims": claims}


def _spelt_out(unit: str) -> str:
    for before, now in UNITS.items():
        unit = unit.replace(before, now)
    return unit


def _in_todays_words(text: str) -> str:
    """What was said of a claim in words that have been edited since, its statistic and bounds the same."""
    for before, now in _reworded():
        text = text.replace(before.strip("*"), now.strip("*"))
    return text


@cache
def _reworded() -> list[tuple[str, str]]:
    return [(before, now) for before, now in json.loads(REWORDED.read_text())]


ON_PAIRS = ("glue-of-causal-language", "real-text-algorithms")
"""The experiments with claims about tasks of pairs."""


@cache
def registered_claims(scale: str) -> dict[tuple[str, str], Claim]:
    """The claims that are registered today, by experiment and name; by name alone under an empty one.

    As they are at this scale, or at another where this one has none of that name. Shipped results have claims
    about tasks of pairs, whose texts need not be at hand here.
    """
    scales = [scale_named(name) for name in sorted(SCALES, key=lambda name: name == scale)]
    every = [each for asked in scales for each in every_experiment(asked)]
    with patch.object(RealTextRuns, "tasks", RealTextRuns.every_task):
        every += [builtin_designs()[name].at(asked) for asked in scales for name in ON_PAIRS]
    found = {(each.name, claim.name): claim for each in every for claim in each.claims}
    # A claim that another experiment has taken over is worded as it is there.
    return {("", name): claim for (_, name), claim in found.items()} | found


def _earlier_rounds() -> dict[str, dict[str, list[dict[str, Any]]]]:
    """Seeds, commit and verdicts of the rounds that a later one replaced, by scale and experiment."""
    found: dict[str, dict[str, list[dict[str, Any]]]] = json.loads(EARLIER.read_text())
    return found


def _earlier(rounds: Sequence[tuple[int, ...]], shipped: dict[str, Any]) -> tuple[tuple[int, ...], ...]:
    """The seeds of rounds before that which is shipped, which may itself be followed by one that is not."""
    return tuple(takewhile(lambda seeds: list(seeds) != seeds_of(shipped["result"]), rounds))


def not_yet_run(shipped: dict[str, Any]) -> str:
    """A sentence where the result is of an earlier round than the claims that are registered now."""
    fresh = _fresh_seeds(shipped["result"], shipped["scale"])
    if not fresh:
        return ""
    return (
        " **These results are of an earlier round.** The claims have since been registered anew, for seeds "
        f"{min(fresh)} to {max(fresh)}, which have [not been run yet](claims.md)."
    )


def _fresh_seeds(result: dict[str, Any], scale: str) -> tuple[int, ...]:
    """The seeds for which its claims have been registered anew; none where it has been run on these."""
    fresh = builtin_designs()[result["name"]].seeds.get(scale, ())
    return () if set(fresh) == set(seeds_of(result)) else tuple(fresh)


def largest_current(scales: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Of one experiment's results, those of the largest scale whose claims are those registered today."""
    return max(scales, key=lambda each: (not not_yet_run(each), SCALES.index(each["scale"])))


def picture_name(name: str, scale: str) -> str:
    """What the documentation calls an experiment's picture."""
    return f"{name}.png" if scale == "laptop" else f"{name}-{scale}.png"


def seeds_of(result: dict[str, Any]) -> list[int]:
    """The seeds of a result's runs."""
    return sorted({row["seed"] for row in result["checkpoints"]})


def of_kind(result: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    """Its effects, or its premises, without those that were withdrawn."""
    return [claim for claim in result["claims"] if claim["kind"] == kind and not claim.get("withdrawn")]


@dataclass(frozen=True)
class ClaimInWords:
    """A claim of a shipped result in words, each of them as pages have it."""

    sentence: str
    paper: str
    measured: str
    claimed: str
    verdict: str
    what_would_decide: str


def in_words(claim: dict[str, Any]) -> ClaimInWords:
    """The sentence, what the paper has, what was measured and claimed, the verdict, and what is missing."""
    read = reading(claim["unit"], claim["kind"])
    numbers = [claim[name] for name in ("effect", "low", "high")]
    if None in numbers:
        measured = "undefined on some runs"
    else:
        found = [read.factor * number for number in numbers]
        digits = digits_that_tell(*found[1:])
        effect, least, most = (in_digits(number, digits) for number in found)
        measured = f"{effect}{read.sign} {read.unit}".rstrip() + f" ({least} to {most})"
    low, high = claim["claimed"]["above"], claim["claimed"]["below"]
    region = Region(-math.inf if low is None else low, math.inf if high is None else high)
    scaled = f" {read.unit}" if read.unit.startswith("×") else ""  # the bound is a multiple of the unit
    paper = claim["paper"].replace("percent points", "percentage points")
    return ClaimInWords(
        claim["sentence"],
        paper,
        measured,
        read.region(region) + scaled,
        claim["verdict"],
        _what_would_decide(claim),
    )


def _what_would_decide(claim: dict[str, Any]) -> str:
    if claim["verdict"] != "inconclusive" or claim["effect"] is None:
        return ""
    seeds = claim["seeds_needed"]
    return f"{seeds} seeds needed to decide it" if seeds else f"undecidable with {MOST_SEEDS:,} seeds"


def keep(name: str, results: Path, origin: dict[str, Any], *, of_group: bool) -> None:
    """Take an experiment of a finished results folder, and its picture, in place of what is shipped.

    `origin` tells how it was computed: command, commit, seconds and so on. Of a group, what is the same as
    before and what has no runs is left out. Where other seeds replace those of a round, these belong into the
    experiment's `earlier_seeds`.
    """
    files, scale = results / "site" / "files", results.name
    result = json.loads((files / f"{name}.json").read_text())
    shipped = shipped_results(scale)
    unchanged = name in shipped and result == shipped[name]["result"]
    if of_group and (unchanged or not result["checkpoints"]):
        return
    run = stored_run(results / "runs" / result["checkpoints"][0]["folder"])
    versions = run.checkpoints[0].content["versions"]
    if name in shipped and seeds_of(shipped[name]["result"]) != seeds_of(result):
        _keep_verdicts(scale, name, shipped[name])
    shipped[name] = {**origin, "versions": versions, "result": result, **findings_of(result)}
    write_atomically(SHIPPED / f"{scale}.json.gz", packed_results(scale, shipped))
    if picture := builtin_designs()[name].picture:
        svg = (files / f"{name}-{picture.panel}.svg").read_text()
        (ROOT / "docs" / picture_name(name, scale)).write_bytes(vl_convert.svg_to_png(svg, scale=PIXELS))


def findings_of(result: dict[str, Any]) -> dict[str, tuple[str, ...]]:
    """What the design finds in the table: shipped, since judging many sets of seeds takes minutes."""
    findings = builtin_designs()[result["name"]].findings
    if findings is None:
        return {}
    return {"findings": findings(pl.DataFrame(result["checkpoints"], infer_schema_length=None))}


def _keep_verdicts(scale: str, name: str, replaced: dict[str, Any]) -> None:
    """The verdicts of a round beside those of the rounds before it."""
    rounds = _earlier_rounds()
    result = replaced["result"]
    replaced_round = {
        "seeds": seeds_of(result),
        "commit": replaced["commit"][:12],
        "verdicts": {claim["name"]: claim["verdict"] for claim in result["claims"]},
    }
    rounds.setdefault(scale, {}).setdefault(name, []).append(replaced_round)
    EARLIER.write_text(json.dumps(rounds, indent=1, ensure_ascii=False) + "\n")
