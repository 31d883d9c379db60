"""What README and docs/drift.md quote of the shipped results, between marks in their text."""

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from results_shipped import ROOT, in_words, largest_current, seeds_of

from isoloss.experiments.equal_knowledge import POLISHED

README, DRIFT_PAGE = ROOT / "README.md", ROOT / "docs" / "drift.md"
PLACES = {
    "found": "<!-- what was found -->\n",
    "table": "<!-- what make reproduce gave -->\n",
    "speed": "<!-- how fast the trace fell -->\n",
    "drift": "<!-- what the drift gave -->\n",
}
"""Of what these pages say of the results, the line that each part stands below."""

END = "<!-- until here -->\n"


@dataclass(frozen=True)
class Finding:
    """What a few claims, each as (experiment, name), say together.

    `sentence` is said if the claims' answers are `needed`, with each claim's number under its place and, as
    `reached`, how many starts were polished to one KL; if they have become others, `about` heads the
    `questions` and their answers, one a claim.
    """

    claims: tuple[tuple[str, str], ...]
    needed: tuple[str, ...]
    sentence: str
    about: str
    questions: tuple[str, ...]


FINDINGS = (
    Finding(
        (("figure-1", "later-is-better"), ("figure-1", "one-kl")),
        ("Yes", "No"),
        "**The loss converges before accuracy and KL do**: once that of masked models on a grammar has, "
        "accuracy still rises, by {0}, and a run still spans {1}",
        "What accuracy follows",
        (
            "After the loss has converged, does accuracy keep rising?",
            "Has KL converged as well?",
        ),
    ),
    Finding(
        (("flatten-polish", "flatter-is-no-better"), ("flatten-polish", "rounding-harms-the-sharper")),
        ("No", "Yes"),
        "**Flatness alone does not raise accuracy; it makes models robust to rounding**: among models made "
        "flatter or sharper and then trained towards equal KL, which {reached} starts reached, accuracy "
        "changes by {0}, while the KL that 6-bit weights cost rises by {1}",
        "What flatness alone does",
        (
            "Does accuracy rise by half a point as the trace of the Hessian halves, KL being equal?",
            "Does rounding the weights to 6 bits harm sharper models more?",
        ),
    ),
    Finding(
        (("dyck-transfer", "flattest-transfers"), ("figure-2", "causal-lm-opening-4-later-is-better")),
        ("Yes", "No"),
        "**Not everywhere**: on Dyck strings the flattest model does count brackets better, by {0}; and "
        "after its loss has converged, a causal model's accuracy falls: it changes by {1}",
        "Elsewhere",
        (
            "Does the flattest transformer on Dyck strings transfer best?",
            "Does a causal model's accuracy keep rising after its loss has converged?",
        ),
    ),
    Finding(
        (("drift", "trace-falls"), ("drift", "one-clock")),
        ("Yes", "Yes"),
        "**SGD keeps moving to flatter models, by one clock**: a run goes through {0}, and learning rate η, "
        "batch size B and steps k matter nearly only through τ = η²k / 4B, by which any two schedules are at "
        "most {1}",
        "The clock",
        (
            "Does the trace keep falling under SGD?",
            "Do learning rate η, batch size B and steps k matter nearly only through τ = η²k / 4B?",
        ),
    ),
)
"""README's findings."""

ANSWERS = {"supported": "Yes", "not supported": "No", "inconclusive": "Undecided"}
ASKED_THE_OTHER_WAY = ("flatter-is-no-better",)
"""The claims whose question a supported claim answers with no."""

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


def with_results(readme: str, shipped: Sequence[dict[str, Any]]) -> str:
    """README's text with its findings, and the table of what `make reproduce` gave, in their places."""
    more = textwrap.fill(MORE, 125, break_on_hyphens=False)
    table = f"{readme_table(shipped)}\n{more}\n"
    return _placed(_placed(readme, "found", findings(shipped, "docs/what-we-found.md")), "table", table)


def findings(shipped: Sequence[dict[str, Any]], page: str) -> str:
    """Each finding in a sentence, of its largest current scale; `page` has the rest."""
    return "".join(f"{_in_a_sentence(found, shipped, page)}\n" for found in FINDINGS)


def _in_a_sentence(found: Finding, shipped: Sequence[dict[str, Any]], page: str) -> str:
    shown = {
        name: largest_current([each for each in shipped if each["result"]["name"] == name])
        for name in dict.fromkeys(name for name, _ in found.claims)
    }
    claims = [_claim(shown[name], claim) for name, claim in found.claims]
    numbers, answers = [in_words(claim).measured for claim in claims], tuple(map(_answer, claims))
    if answers == found.needed:
        said = found.sentence.format(*numbers, reached=_reached(shown[found.claims[0][0]]["result"]))
    else:
        parts = zip(found.questions, answers, numbers, strict=True)
        said = f"**{found.about}**: " + "; ".join(
            f"{asked} {answer}, {number}" for asked, answer, number in parts
        )
    where = "; ".join(
        f"[{name}]({page}#{name}), {each['scale']} scale, {_in_words(len(seeds_of(each['result'])))} seeds"
        for name, each in shown.items()
    )
    text = f"- {said} ({where}).".replace(" %", "\N{NO-BREAK SPACE}%")
    return textwrap.fill(text, 125, subsequent_indent="  ", break_on_hyphens=False)


def _reached(result: dict[str, Any]) -> str:
    """Of how many starts all polished models are within 1e-5 nats, and their KL the same to a fifth."""
    found: dict[tuple[int, int], list[float]] = {}
    for row in result["checkpoints"]:
        if row.get("stage") == POLISHED:
            found.setdefault((row["seed"], row["width"]), []).append(row["kl"])
    reached = [max(kls) <= min(1e-5, 1.2 * min(kls)) for kls in found.values()]
    return f"{sum(reached)} of {len(reached)}"


def conclusion(shown: dict[str, Any]) -> str:
    """A shipped result's finding without numbers, for a picture's title; empty if it is not among them."""
    for found in FINDINGS:
        if {name for name, _ in found.claims} == {shown["result"]["name"]}:
            claims = [_claim(shown, claim) for _, claim in found.claims]
            if tuple(map(_answer, claims)) == found.needed:
                return found.sentence.split("**")[1]
    return ""


def _claim(shown: dict[str, Any], name: str) -> dict[str, Any]:
    return next(claim for claim in shown["result"]["claims"] if claim["name"] == name)


def _answer(claim: dict[str, Any]) -> str:
    answer = ANSWERS[in_words(claim).verdict]
    if claim["name"] in ASKED_THE_OTHER_WAY:
        return {"Yes": "No", "No": "Yes"}.get(answer, answer)
    return answer


def readme_table(shipped: Sequence[dict[str, Any]]) -> str:
    """The effects that `make reproduce` shows best: the paper's words, and ours at laptop scale."""
    rows = ["| | the paper | laptop scale |", "|---|---|---|"]
    for name, effects in ROWS.items():
        result = next(
            each["result"] for each in shipped if each["result"]["name"] == name and each["scale"] == "laptop"
        )
        claims = {claim["name"]: claim for claim in result["claims"]}
        for effect in effects:
            words = in_words(claims[effect])
            paper = words.paper.removeprefix("none: ")
            rows.append(f"| {words.sentence} | {paper} | **{words.verdict}**: {words.measured} |")
    return "\n".join(rows) + "\n"


def drift_verdicts(shipped: dict[str, Any]) -> str:
    """What a scale's runs say of the drift: each claim with its verdict and its number."""
    claims = {claim["name"]: claim for claim in shipped["result"]["claims"]}
    lines = [f"At `{shipped['scale']}` scale, {_in_words(len(seeds_of(shipped['result'])))} seeds:\n"]
    for words in (in_words(claims[name]) for name in DRIFT_CLAIMS):
        line = f"- {words.sentence[:-1]}: **{words.verdict}**, {words.measured}."
        lines.append(textwrap.fill(line, 120, subsequent_indent="  ", break_on_hyphens=False))
    return "\n".join(lines)


def with_drift(drift_page: str, shipped: Sequence[dict[str, Any]]) -> str:
    """The text of the page on the drift with its verdicts, and its speed over that predicted, by scale."""
    results = [each for each in shipped if each["result"]["name"] == "drift"]
    verdicts = "\n\n".join(map(drift_verdicts, results))
    return _placed(_with_speed(drift_page, shipped), "drift", verdicts + "\n")


def _with_speed(drift_page: str, shipped: Sequence[dict[str, Any]]) -> str:
    speeds = [
        f"{_times(claim)} at `{each['scale']}` scale, {_in_words(len(seeds_of(each['result'])))} seeds"
        for each in shipped
        if each["result"]["name"] == "drift"
        for claim in each["result"]["claims"]
        if claim["name"] == "speed"
    ]
    sentence = f"The measured speed of the trace's fall, divided by the predicted one: {'; '.join(speeds)}."
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
