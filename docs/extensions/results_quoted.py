"""What README and docs/drift.md quote of the shipped results, between marks in their text."""

import textwrap
from collections.abc import Sequence
from typing import Any

from results_kept import ROOT, cells, largest_current, seeds_of

README, DRIFT_PAGE = ROOT / "README.md", ROOT / "docs" / "drift.md"
PLACES = {
    "found": "<!-- what was found -->\n",
    "table": "<!-- what make reproduce gave -->\n",
    "speed": "<!-- how fast the trace fell -->\n",
    "drift": "<!-- what the drift gave -->\n",
}
"""Of what these pages say of the results, the line that each part stands below."""

END = "<!-- until here -->\n"
FINDINGS = (
    (
        "What accuracy follows",
        "figure-1",
        {
            "later-is-better": (
                "Once the loss has settled, accuracy keeps rising as steps double: {verdict}, {measured}."
            ),
            "one-kl": (
                "KL, what is left to learn, has settled too: {verdict}, it still changes by {measured}."
            ),
        },
    ),
    (
        "What flatness alone does",
        "flatten-polish",
        {
            "flatter-is-no-better": (
                "Models were made flatter or sharper, then trained to equal KL. As the trace of the Hessian "
                "doubles, their accuracy does not fall by half a point: {verdict}, {measured}."
            ),
            "rounding-harms-the-sharper": (
                "Rounding the weights to 6 bits does more harm to sharper models: {verdict}, "
                "the harm grows by {measured}."
            ),
        },
    ),
    (
        "The clock",
        "drift",
        {
            "trace-falls": (
                "Once the loss has settled, SGD keeps moving to flatter models: {verdict}, the trace falls "
                "by {measured}."
            ),
            "one-clock": (
                "Learning rate η, batch size B and steps k matter only through one clock, τ = η²k / 4B: "
                "{verdict}, runs stray from one curve by {measured}."
            ),
        },
    ),
)
"""README's findings: what each is about, the experiment that it is told by, and its claims in plain words."""

DRIFT_CLAIMS = ("trace-falls", "loss-stands", "one-clock", "no-noise-no-fall")
"""The claims whose verdicts stand beside the drift's pictures."""

ROWS = {
    "figure-1": ("later-is-flatter", "later-is-better"),
    "flatten-polish": (
        "noise-flattens",
        "flatter-is-no-better",
        "noise-harms-the-sharper",
        "rounding-harms-the-sharper",
    ),
}
"""The effects in README's table, by experiment."""

MORE = (
    "Brackets: 95 % intervals over seeds, corrected for several effects; the last four rows are of `make "
    "reproduce-polished`. [What we found](docs/what-we-found.md) has premises and limits; `make docs` builds "
    "the [documentation](docs/index.md)."
)

IN_WORDS = {
    **{2: "two", 3: "three", 5: "five", 6: "six", 7: "seven"},
    **{10: "ten", 15: "fifteen", 20: "twenty", 30: "thirty"},
}


def with_results(readme: str, kept: Sequence[dict[str, Any]]) -> str:
    """README's text with its findings, and the table of what `make reproduce` gave, in their places."""
    told = textwrap.fill(MORE, 125, break_on_hyphens=False)
    table = f"{readme_table(kept)}\n{told}\n"
    return _placed(_placed(readme, "found", findings(kept, "docs/what-we-found.md")), "table", table)


def findings(kept: Sequence[dict[str, Any]], page: str) -> str:
    """Each finding: its claims' verdicts and numbers at the largest current scale; `page` has the rest."""
    lines = []
    for about, name, claims in FINDINGS:
        shown = largest_current([each for each in kept if each["result"]["name"] == name])
        named = {claim["name"]: claim for claim in shown["result"]["claims"]}
        seeds = _in_words(len(seeds_of(shown["result"])))
        said = " ".join(_said(words, named[claim]) for claim, words in claims.items())
        where = f"[{name}]({page}#{name}), {shown['scale']}, {seeds} seeds"
        text = f"- **{about}** ({where}). {said}"
        lines.append(textwrap.fill(text, 125, subsequent_indent="  ", break_on_hyphens=False))
    return "\n".join(lines) + "\n"


def _said(words: str, claim: dict[str, Any]) -> str:
    _, _, measured, _, verdict = cells(claim)
    return words.format(verdict=verdict.partition(";")[0], measured=measured)


def readme_table(kept: Sequence[dict[str, Any]]) -> str:
    """The effects that `make reproduce` shows best: the paper's words, and ours at laptop scale."""
    rows = ["| | the paper | laptop scale |", "|---|---|---|"]
    for name, effects in ROWS.items():
        result = next(
            each["result"] for each in kept if each["result"]["name"] == name and each["scale"] == "laptop"
        )
        claims = {claim["name"]: claim for claim in result["claims"]}
        for effect in effects:
            sentence, paper, measured, _, verdict = cells(claims[effect])
            rows.append(f"| {sentence} | {paper} | {measured}: {verdict} |")
    return "\n".join(rows) + "\n"


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
