"""What docs/drift.md quotes of the shipped results, between marks in its text."""

import textwrap
from collections.abc import Sequence
from typing import Any

from results_quoted import number_in_words, placed
from results_shipped import ROOT, in_words, seeds_of

DRIFT_PAGE = ROOT / "docs" / "drift.md"
CLAIMS = ("trace-falls", "loss-stands", "one-clock", "no-noise-no-fall")
"""The claims whose verdicts stand beside the drift's pictures."""
EXPONENTS = {
    "rate-exponent": "a",
    "batch-exponent": "b",
    "resistance": "b of the whole fall, minus b of half of it",
    "finite-steps": "exponent of 1/η at equal η/B, of the two highest rates minus of the two lowest",
}
"""The claims on how steps scale, and what each is about."""


def with_drift(drift_page: str, shipped: Sequence[dict[str, Any]]) -> str:
    """The page's text with the verdicts, exponents and speed of the drift, and where the clock fails."""
    drift = [each for each in shipped if each["result"]["name"] == "drift"]
    limits = [each for each in shipped if each["result"]["name"] == "drift-limits"]
    parts = {
        "drift": "\n\n".join(map(_verdicts, drift)),
        "exponents": _exponents(drift),
        "speed": _speed(drift),
        "limits": "\n\n".join(map(_limits, limits)),
    }
    for part, written in parts.items():
        drift_page = placed(drift_page, part, f"{written}\n")
    return drift_page


def _verdicts(shipped: dict[str, Any]) -> str:
    """What a scale's runs say of the drift: each claim with its verdict and its number."""
    words = [in_words(_claims(shipped)[name]) for name in CLAIMS]
    lines = [f"{said.sentence[:-1]}: **{said.verdict}**, {said.measured}." for said in words]
    return _listed(shipped, lines)


def _limits(shipped: dict[str, Any]) -> str:
    """What a scale's runs say of each thing that was varied."""
    return _listed(shipped, shipped["findings"][1:])


def _listed(shipped: dict[str, Any], lines: Sequence[str]) -> str:
    wrapped = (
        textwrap.fill(f"- {each}", 120, subsequent_indent="  ", break_on_hyphens=False) for each in lines
    )
    return "\n".join([f"At {_scale_and_seeds(shipped)}:\n", *wrapped])


def _exponents(drift: Sequence[dict[str, Any]]) -> str:
    """How steps scale: a row a claim, a column a scale."""
    rows = [f"| | claimed | {' | '.join(map(_scale_and_seeds, drift))} |", "|---|---|" + "---|" * len(drift)]
    for name, of in EXPONENTS.items():
        words = [in_words(_claims(each)[name]) for each in drift]
        found = " | ".join(f"{said.measured}: **{said.verdict}**" for said in words)
        rows.append(f"| {of} (`{name}`) | {words[0].claimed} | {found} |")
    return "\n".join(rows)


def _speed(drift: Sequence[dict[str, Any]]) -> str:
    speeds = "; ".join(f"{_times(_claims(each)['speed'])} at {_scale_and_seeds(each)}" for each in drift)
    return textwrap.fill(
        f"The measured speed of the trace's fall, divided by the predicted one: {speeds}.", 120
    )


def _times(claim: dict[str, Any]) -> str:
    value, low, high = (f"{2 ** claim[name]:.2f}" for name in ("effect", "low", "high"))
    return f"{value} ({low} to {high})"


def _scale_and_seeds(shipped: dict[str, Any]) -> str:
    return f"`{shipped['scale']}` scale, {number_in_words(len(seeds_of(shipped['result'])))} seeds"


def _claims(shipped: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {claim["name"]: claim for claim in shipped["result"]["claims"]}
