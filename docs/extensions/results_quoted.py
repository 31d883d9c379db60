"""What README quotes of the shipped results, between marks in its text."""

import re
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from results_shipped import ROOT, in_words, largest_current, seeds_of

from isoloss.experiments.equal_knowledge import POLISHED
from isoloss.experiments.shared.claims import UNDECIDABLE
from isoloss.results.verdict import Verdict

README = ROOT / "README.md"
PLACES = {
    "found": "<!-- what was found -->\n",
    "table": "<!-- what make reproduce gave -->\n",
    "drift": "<!-- what the drift gave -->\n",
    "exponents": "<!-- how steps scale -->\n",
    "speed": "<!-- how fast the trace fell -->\n",
    "limits": "<!-- where the clock fails -->\n",
}
"""Of what these pages say of the results, the line that each part stands below."""

END = "<!-- until here -->\n"


def starts_polished(result: dict[str, Any]) -> str:
    """Of how many starts all polished models are within 1e-5 nats, and their KL the same to a fifth."""
    found: dict[tuple[int, int], list[float]] = {}
    for row in result["checkpoints"]:
        if row["stage"] == POLISHED:
            found.setdefault((row["seed"], row["width"]), []).append(row["kl"])
    reached = [max(kls) <= min(1e-5, 1.2 * min(kls)) for kls in found.values()]
    return f"{sum(reached)} of {len(reached)}"


SUPPORTED, NOT_SUPPORTED = map(str, (Verdict.SUPPORTED, Verdict.NOT_SUPPORTED))


@dataclass(frozen=True)
class Finding:
    """What a few claims of one experiment say together.

    `sentence` is said if the claims' verdicts are `needed`, with each claim's number under its place and
    what `counted` says of the result, if anything; if they have become others, `about` heads the claims with
    their verdicts.
    """

    experiment: str
    claims: tuple[str, ...]
    needed: tuple[str, ...]
    sentence: str
    about: str
    counted: Callable[[dict[str, Any]], str] | None = None


FINDINGS = (
    Finding(
        "figure-1",
        ("one-loss", "one-kl", "later-is-better"),
        (SUPPORTED, NOT_SUPPORTED, SUPPORTED),
        "**A loss that looks converged hides falling KL**: late in a run the loss changes by {0}, "
        "but spans {1}, and accuracy still rises, by {2}",
        "What a loss that looks converged hides",
    ),
    Finding(
        "flatten-polish",
        ("flatter-is-no-better", "rounding-harms-the-sharper"),
        (SUPPORTED, SUPPORTED),
        "**At equal KL flatter models withstand rounding, but are no more accurate**: among masked models "
        "made flatter or sharper, then polished ({counted} starts), accuracy changes by {0}, the KL cost of "
        "6-bit weights by {1}",
        "What changes with flatness at equal KL",
        starts_polished,
    ),
    Finding(
        "flatten-polish-causal",
        ("flatter-is-no-better", "flatter-is-neither-better-nor-worse", "a-trained-probe-reads-both-alike"),
        (NOT_SUPPORTED, SUPPORTED, SUPPORTED),
        "**Unconverged probes favour flatter causal models**: at equal KL accuracy from 300 "
        "examples changes by {0}, with tenfold training on centred features by {2}",
        "Causal models",
    ),
    Finding(
        "flatten-polish-dyck",
        ("flatter-counts-better", "flatter-counts-better-from-fewer"),
        (NOT_SUPPORTED, SUPPORTED),
        "**Flatter models count Dyck brackets better, though flatness may not be why**: at equal KL "
        "({counted} starts) the squared error changes by {0}",
        "Dyck strings, at equal KL",
        starts_polished,
    ),
    Finding(
        "drift",
        ("trace-falls", "one-clock", "rate-exponent", "batch-exponent"),
        (SUPPORTED, SUPPORTED, SUPPORTED, SUPPORTED),
        "**SGD keeps moving to flatter models, roughly by one clock**: through {0}; at equal "
        "η²k / 4B (rate η, batch B, step k) schedules are at most {1}; on one grammar, steps "
        "to a fall go as η^-{2} B^{3}",
        "The clock",
    ),
)
"""README's findings."""

ROWS = {
    "figure-1": ("later-is-flatter",),
    "flatten-polish": (
        "noise-flattens",
        "flatter-is-no-better",
        "noise-harms-the-sharper",
    ),
}
"""The effects in README's table, by experiment."""

MORE = (
    "Brackets: intervals over seeds, 95 % or wider (Holm). At least 95 % of "
    "[other sets](docs/what-we-found.md#same-verdict) of six seeds give each of {same} of {verdicts} "
    "verdicts of `make reproduce`; the {turning} others were withdrawn for it, {undecidable} more as "
    "undecidable."
)
JUDGED_AGAIN = ("same-verdict", "same-verdict-polished")
"""The experiments that judge what `make reproduce` judges on other sets of seeds."""

IN_WORDS = {
    **{1: "one", 2: "two", 3: "three", 5: "five", 6: "six", 7: "seven"},
    **{10: "ten", 15: "fifteen", 20: "twenty", 30: "thirty", 60: "sixty", 80: "eighty"},
}


def with_results(readme: str, shipped: Sequence[dict[str, Any]]) -> str:
    """README's text with its findings, and the table of what `make reproduce` gave, in their places."""
    same, judged = _standing(shipped)
    turning, undecidable = _withdrawn(shipped)
    numbers = {
        "same": same,
        "verdicts": judged + turning,
        "turning": number_in_words(turning),
        "undecidable": number_in_words(undecidable),
    }
    more = textwrap.fill(MORE.format(**numbers), 125, break_on_hyphens=False)
    table = f"{readme_table(shipped)}\n{more}\n"
    return placed(placed(readme, "found", findings(shipped, "docs/what-we-found.md")), "table", table)


def findings(shipped: Sequence[dict[str, Any]], page: str) -> str:
    """Each finding in a sentence, of its largest current scale; `page` has the rest."""
    return "".join(f"{_in_a_sentence(found, shipped, page)}\n" for found in FINDINGS)


def _in_a_sentence(found: Finding, shipped: Sequence[dict[str, Any]], page: str) -> str:
    shown = largest_current([each for each in shipped if each["result"]["name"] == found.experiment])
    claims = [in_words(claim) for claim in _claims(found, shown)]
    if _verdicts(found, shown) == found.needed:
        counted = found.counted(shown["result"]) if found.counted else ""
        said = found.sentence.format(*(claim.measured for claim in claims), counted=counted)
    else:
        parts = (f"“{each.sentence.removesuffix('.')}” {each.verdict}, {each.measured}" for each in claims)
        said = f"**{found.about}**: {'; '.join(parts)}"
    seeds = number_in_words(len(seeds_of(shown["result"])))
    where = f"[{found.experiment}]({page}#{found.experiment}), {shown['scale']} scale, {seeds} seeds"
    text = f"- {said} ({where}).".replace(" %", "\N{NO-BREAK SPACE}%")
    return textwrap.fill(text, 125, subsequent_indent="  ", break_on_hyphens=False)


def conclusion(shown: dict[str, Any]) -> str:
    """A shipped result's finding without numbers, for a picture's title; empty if it is not among them."""
    judged = {claim["name"] for claim in shown["result"]["claims"]}
    for found in FINDINGS:
        known = found.experiment == shown["result"]["name"] and judged.issuperset(found.claims)
        if known and _verdicts(found, shown) == found.needed:
            return found.sentence.split("**")[1]
    return ""


def _verdicts(found: Finding, shown: dict[str, Any]) -> tuple[str, ...]:
    return tuple(claim["verdict"] for claim in _claims(found, shown))


def _claims(found: Finding, shown: dict[str, Any]) -> list[dict[str, Any]]:
    named = {claim["name"]: claim for claim in shown["result"]["claims"]}
    return [named[name] for name in found.claims]


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


def _standing(shipped: Sequence[dict[str, Any]]) -> tuple[int, int]:
    """How many of the verdicts that are judged again are one on nearly all sets of seeds, and of how many."""
    said = [
        each["findings"][0]
        for each in shipped
        if each["result"]["name"] in JUDGED_AGAIN and each["scale"] == "night"
    ]
    pairs = re.findall(r"(\d+) of (\d+) (?:premise|effect)s", " ".join(said))
    return sum(int(same) for same, _ in pairs), sum(int(every) for _, every in pairs)


def _withdrawn(shipped: Sequence[dict[str, Any]]) -> tuple[int, int]:
    """Of the claims of `make reproduce`, those withdrawn as other seeds decide otherwise, and undecidable."""
    at_laptop = (each["result"] for each in shipped if each["scale"] == "laptop")
    reasons = [
        claim["withdrawn"]
        for each in at_laptop
        if each["name"] in ROWS
        for claim in each["claims"]
        if claim.get("withdrawn")
    ]
    undecidable = sum(reason.startswith(UNDECIDABLE) for reason in reasons)
    return len(reasons) - undecidable, undecidable


def number_in_words(number: int) -> str:
    """As text has it: in words, if it has them here."""
    return IN_WORDS.get(number, str(number))


def placed(page: str, part: str, written: str) -> str:
    """The page with this part of it as `written`."""
    before, begin, rest = page.partition(PLACES[part])
    _, _, after = rest.partition(END)
    return before + begin + written + END + after
