"""What README and docs/drift.md quote of the shipped results, between marks in their text."""

import textwrap
from collections.abc import Sequence
from typing import Any

from results_kept import ROOT, cells, of_kind, seeds_of, verdict_of

README, DRIFT_PAGE = ROOT / "README.md", ROOT / "docs" / "drift.md"
PLACES = {
    "equal": "<!-- what flatness alone does -->\n",
    "caption": "<!-- what the picture shows -->\n",
    "table": "<!-- what make reproduce gave -->\n",
    "speed": "<!-- how fast the trace fell -->\n",
    "drift": "<!-- what the drift gave -->\n",
}
"""Of what these pages say of the results, the line that each part stands below."""

END = "<!-- until here -->\n"
CAPTION_CLAIMS = ("later-is-flatter", "later-is-better")
"""The claims whose verdicts stand below README's picture."""

EQUAL_CLAIMS = (
    *("know-the-same", "differ-in-flatness", "flatter-is-no-better"),
    *("noise-harms-the-sharper", "rounding-harms-the-sharper"),
)
"""The claims on models of equal knowledge whose verdicts stand at README's beginning."""

DRIFT_CLAIMS = ("trace-falls", "loss-stands", "one-clock", "no-noise-no-fall")
"""The claims whose verdicts stand beside the drift's pictures."""

ROWS = 5
"""The most effects that README's table has."""

MORE = (
    "Brackets: 95 % intervals over seeds, corrected for a figure's number of effects. [What we found](docs/"
    "what-we-found.md) has premises and limits; `make docs` builds the [documentation](docs/index.md)."
)

IN_WORDS = {2: "two", 3: "three", 5: "five", 10: "ten", 15: "fifteen"}


def with_results(readme: str, kept: Sequence[dict[str, Any]]) -> str:
    """README's text with caption and table in their places: Figure 1's, and what flatness alone does."""
    first = [each for each in kept if each["result"]["name"] == "figure-1"]
    told = textwrap.fill(MORE, 125, break_on_hyphens=False)
    table = f"{readme_table(first)}\n{told}\n"
    page = _placed(_placed(readme, "caption", readme_caption(first[0])), "table", table)
    return _placed(page, "equal", equal_knowledge(kept))


def readme_caption(kept: dict[str, Any]) -> str:
    """What README's picture shows: its models, how much their loss still moves, and the verdicts."""
    result = kept["result"]
    shown = [row for row in result["checkpoints"] if row["run"] == f"width-{row['width']}-seed-{row['seed']}"]
    models, widths = (len({row[name] for row in shown}) for name in ("run", "width"))
    claims = {claim["name"]: claim for claim in result["claims"]}
    _, paper, loss, *_ = cells(claims["one-loss"])
    sentences = [
        f"{_in_words(models).capitalize()} models of {_in_words(widths)} widths pre-trained on one language.",
        f"Behind the dashed line a run's losses spread by {loss}; the paper: {paper.partition(' (')[0]}.",
        *(f"{claims[name]['sentence'][:-1]}: {verdict_of(claims[name])}." for name in CAPTION_CLAIMS),
    ]
    return textwrap.fill(" ".join(sentences), 125) + "\n"


def readme_table(kept: Sequence[dict[str, Any]]) -> str:
    """The first effects that are tested, for README: one experiment's results, a column a scale.

    Scales whose results are of other claims than the first one's, those of an earlier round, are left out.
    """
    names = [[claim["name"] for claim in _tested(each)] for each in kept]
    shown = [each for each, own in zip(kept, names, strict=True) if own == names[0]]
    scales = [f"{each['scale']}, {_in_words(len(seeds_of(each['result'])))} seeds" for each in shown]
    rows = [f"| | the paper | {' | '.join(scales)} |", "|---|---|" + "---|" * len(shown)]
    for claims in list(zip(*map(_tested, shown), strict=True))[:ROWS]:
        said = [cells(claim) for claim in claims]
        here = [f"{measured}: {verdict}" for _, _, measured, _, verdict in said]
        rows.append(f"| {' | '.join([*said[0][:2], *here])} |")
    return "\n".join(rows) + "\n"


def _tested(kept: dict[str, Any]) -> list[dict[str, Any]]:
    """The effects of a result that were not withdrawn."""
    return [claim for claim in of_kind(kept["result"], "effect") if not claim.get("withdrawn")]


def equal_knowledge(kept: Sequence[dict[str, Any]]) -> str:
    """What models that know the same differ in, at the largest scale kept, for README."""
    (*_, last) = (each for each in kept if each["result"]["name"] == "flatten-polish")
    claims = {claim["name"]: claim for claim in last["result"]["claims"]}
    told = []
    for name in EQUAL_CLAIMS:
        sentence, _, measured, _, verdict = cells(claims[name])
        told.append(f"{sentence[:-1]}: {measured}, {verdict.partition(';')[0]}.")
    seeds = _in_words(len(seeds_of(last["result"])))
    text = f"At `{last['scale']}`, of {seeds} seeds: {' '.join(told)}"
    return textwrap.fill(text, 125, break_on_hyphens=False) + "\n"


def drift_verdicts(kept: dict[str, Any]) -> str:
    """What a scale's runs say of the drift: each claim with its number and its verdict."""
    claims = {claim["name"]: claim for claim in kept["result"]["claims"]}
    told = []
    for name in DRIFT_CLAIMS:
        sentence, _, measured, _, verdict = cells(claims[name])
        told.append(f"{sentence[:-1]}: {measured}, {verdict.partition(';')[0]}.")
    return f"At `{kept['scale']}`, of {_in_words(len(seeds_of(kept['result'])))} seeds: {' '.join(told)}"


def with_drift(drift_page: str, kept: Sequence[dict[str, Any]]) -> str:
    """The text of the page on the drift with its verdicts, and its speed over that predicted, by scale."""
    results = [each for each in kept if each["result"]["name"] == "drift"]
    verdicts = "\n\n".join(textwrap.fill(drift_verdicts(each), 120) for each in results)
    return _placed(_with_speed(drift_page, kept), "drift", verdicts + "\n")


def _with_speed(drift_page: str, kept: Sequence[dict[str, Any]]) -> str:
    told = [
        f"at `{each['scale']}`, over {_in_words(len(seeds_of(each['result'])))} seeds, {_times(claim)}"
        for each in kept
        if each["result"]["name"] == "drift"
        for claim in each["result"]["claims"]
        if claim["name"] == "speed"
    ]
    sentence = f"The speed along the runs over that predicted, with its interval: {'; '.join(told)}."
    return _placed(drift_page, "speed", textwrap.fill(sentence, 120) + "\n")


def _times(claim: dict[str, Any]) -> str:
    value, low, high = (f"{2 ** claim[name]:.2f}" for name in ("effect", "low", "high"))
    return f"{value} ({low} to {high})"


def _in_words(number: int) -> str:
    return IN_WORDS.get(number, str(number))


def _placed(page: str, part: str, written: str) -> str:
    before, begin, rest = page.partition(PLACES[part])
    _, _, after = rest.partition(END)
    return before + begin + written + END + after
