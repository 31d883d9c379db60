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
CAPTION_CLAIMS = ("later-is-flatter", "later-is-better", "trace-ranks-better")
"""The claims whose verdicts stand below README's picture."""

DRIFT_CLAIMS = ("trace-falls", "loss-stands", "one-clock", "no-noise-no-fall")
"""The claims whose verdicts stand beside the drift's pictures."""

DRIFT_PICTURE = (
    "![The trace of the Hessian over the time of SGD's drift, for every rate and batch](docs/drift-night.png)"
)

MORE = (
    "Brackets: 95 % intervals over seeds, corrected for a figure's number of effects. [What we found](docs/"
    "what-we-found.md) has premises and limits; `make docs` builds the [documentation](docs/index.md)."
)

IN_WORDS = {2: "two", 3: "three", 5: "five", 10: "ten", 15: "fifteen"}


def with_results(readme: str, kept: Sequence[dict[str, Any]]) -> str:
    """README's text with caption and table in their places: Figure 1's, and what flatness alone does."""
    first = [each for each in kept if each["result"]["name"] == "figure-1"]
    *_, drift = (each for each in kept if each["result"]["name"] == "drift")
    pictured = (
        "Plain SGD from where AdamW has converged, over the time τ = η²k / 4B ([more](docs/drift.md); "
        f"width 32). {drift_verdicts(drift)}"
    )
    told = textwrap.fill(f"{pictured} {flatness_alone(kept)} {MORE}", 125, break_on_hyphens=False)
    table = f"{readme_table(first)}\n{DRIFT_PICTURE}\n\n{told}\n"
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
    """The effects, for README: one experiment's results, a column a scale."""
    scales = [f"{each['scale']}, {_in_words(len(seeds_of(each['result'])))} seeds" for each in kept]
    rows = [f"| | the paper | {' | '.join(scales)} |", "|---|---|" + "---|" * len(kept)]
    for claims in zip(*(of_kind(each["result"], "effect") for each in kept), strict=True):
        said = [cells(claim) for claim in claims]
        here = [f"{measured}: {verdict}" for _, _, measured, _, verdict in said]
        rows.append(f"| {' | '.join([*said[0][:2], *here])} |")
    return "\n".join(rows) + "\n"


def equal_knowledge(kept: Sequence[dict[str, Any]]) -> str:
    """What models that know the same differ in, at the largest scale kept, for README: a line a claim."""
    (*_, last) = (each for each in kept if each["result"]["name"] == "flatten-polish")
    result = last["result"]
    lines = []
    for claim in (*of_kind(result, "premise"), *of_kind(result, "effect")):
        sentence, _, measured, _, verdict = cells(claim)
        line = f"{sentence[:-1]}: {measured}, {verdict.partition(';')[0]}."
        lines.append(textwrap.fill(line, 120, initial_indent="- ", subsequent_indent="  "))
    seeds = _in_words(len(seeds_of(result)))
    return "\n".join([f"At `{last['scale']}`, of {seeds} seeds:", "", *lines]) + "\n"


def flatness_alone(kept: Sequence[dict[str, Any]]) -> str:
    """What accuracy does where flatness is set at one loss, at the largest scale kept, for README."""
    (*_, last) = (each for each in kept if each["result"]["name"] == "flatness-interventions")
    (claim,) = (each for each in last["result"]["claims"] if each["name"] == "flatter-is-better")
    *_, measured, _, verdict = cells(claim)
    value, _, interval = measured.partition(" (")
    seeds = _in_words(len(seeds_of(last["result"])))
    return (
        "Where [flatness itself](docs/drift.md) is set, from one start to one loss, the probe's accuracy "
        f"changes by {value} of the trace ({interval[:-1]}; {seeds} seeds, {last['scale']}). That it falls "
        f"by a point: {verdict}."
    )


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
