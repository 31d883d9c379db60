"""What README quotes of the shipped results, between marks in its text."""

import re
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from results_shipped import ROOT, in_words, largest_current, seeds_of

from isoloss.experiments.equal_knowledge import POLISHED
from isoloss.experiments.polished_panels import STANDARDISED_300

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


def right_if_standardised(result: dict[str, Any]) -> str:
    """The mean accuracy from 300 examples of the polished models' standardised features."""
    rows = [row for row in result["checkpoints"] if row["stage"] == POLISHED]
    return f"{sum(row[STANDARDISED_300] for row in rows) / len(rows):.4f}"


@dataclass(frozen=True)
class Finding:
    """What a few claims of one experiment say together.

    `sentence` is said if the claims' answers are `needed`, with each claim's number under its place and
    what `counted` says of the result, if anything; if they have become others, `about` heads the `questions`
    and their answers, one a claim.
    """

    experiment: str
    claims: tuple[str, ...]
    needed: tuple[str, ...]
    sentence: str
    about: str
    questions: tuple[str, ...]
    counted: Callable[[dict[str, Any]], str] | None = None


FINDINGS = (
    Finding(
        "figure-1",
        ("one-loss", "one-kl", "later-is-better"),
        ("Yes", "No", "Yes"),
        "**A loss that looks converged hides falling KL**: late in a run the loss changes by {0}, "
        "but spans {1}, and accuracy still rises, by {2}",
        "What a loss that looks converged hides",
        (
            "Has the loss converged late in training?",
            "Has KL converged as well?",
            "Does accuracy still rise?",
        ),
    ),
    Finding(
        "flatten-polish",
        ("flatter-is-no-better", "rounding-harms-the-sharper"),
        ("No", "Yes"),
        "**Flatness alone raises robustness to rounding, not accuracy**: among masked models "
        "made flatter or sharper, then trained to equal KL ({counted} starts), accuracy "
        "changes by {0}, while the KL that 6-bit weights cost rises by {1}",
        "What flatness alone does",
        (
            "Does accuracy rise by half a point as the trace of the Hessian halves, KL being equal?",
            "Does rounding the weights to 6 bits harm sharper models more?",
        ),
        starts_polished,
    ),
    Finding(
        "flatten-polish-causal",
        ("flatter-is-no-better", "flatter-is-neither-better-nor-worse", "a-trained-probe-reads-both-alike"),
        ("Yes", "Yes", "Yes"),
        "**Unconverged probes favour flatter causal models**: at equal KL accuracy from 300 "
        "examples changes by {0}, on standardised features, where it averages {counted}, by {1}",
        "Causal models",
        (
            "Does a plain probe's accuracy rise by half a point as the trace halves?",
            "On standardised features, does it change by less than half a point?",
            "Trained ten times as long on centred features, too?",
        ),
        right_if_standardised,
    ),
    Finding(
        "flatten-polish-dyck",
        ("flatter-counts-better", "flatter-counts-better-from-fewer"),
        ("No", "Yes"),
        "**Flatter models count Dyck brackets better, though flatness may not be why**: at equal KL "
        "({counted} starts) the squared error changes by {0}",
        "Dyck strings, at equal KL",
        ("Do flatter transformers count brackets clearly better?", "And better at all, from four strings?"),
        starts_polished,
    ),
    Finding(
        "drift",
        ("trace-falls", "one-clock", "rate-exponent", "batch-exponent"),
        ("Yes", "Yes", "Yes", "Yes"),
        "**SGD keeps moving to flatter models, roughly by one clock**: a run goes through {0}; at equal "
        "η²k / 4B (rate η, batch B, step k) schedules are at most {1}; steps to one fall scale as "
        "η^-{2} B^{3}",
        "The clock",
        (
            "Does the trace keep falling under SGD?",
            "At equal τ = η²k / 4B (learning rate η, batch size B, k steps), are all schedules alike?",
            "Do steps to a given fall scale roughly as η^-2?",
            "And roughly as B?",
        ),
    ),
)
"""README's findings."""

ANSWERS = {"supported": "Yes", "not supported": "No", "inconclusive": "Undecided"}
ASKED_THE_OTHER_WAY = ("flatter-is-no-better",)
"""The claims whose question a supported claim answers with no."""

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
    "Brackets: intervals over seeds, 95 % or wider (Holm). Laptop scale takes minutes, night hours. At least "
    "95 % of 50 sets of [other seeds](docs/what-we-found.md#same-verdict) give {same} of the {verdicts} "
    "verdicts of `make reproduce`; {withdrawn} more were withdrawn."
)
JUDGED_AGAIN = ("same-verdict", "same-verdict-polished")
"""The experiments that judge what `make reproduce` judges on other sets of seeds."""

IN_WORDS = {
    **{2: "two", 3: "three", 5: "five", 6: "six", 7: "seven"},
    **{10: "ten", 15: "fifteen", 20: "twenty", 30: "thirty", 60: "sixty", 80: "eighty"},
}


def with_results(readme: str, shipped: Sequence[dict[str, Any]]) -> str:
    """README's text with its findings, and the table of what `make reproduce` gave, in their places."""
    same, verdicts = _standing(shipped)
    numbers = {"same": same, "verdicts": verdicts, "withdrawn": _withdrawn(shipped)}
    more = textwrap.fill(MORE.format(**numbers), 125, break_on_hyphens=False)
    table = f"{readme_table(shipped)}\n{more}\n"
    return placed(placed(readme, "found", findings(shipped, "docs/what-we-found.md")), "table", table)


def findings(shipped: Sequence[dict[str, Any]], page: str) -> str:
    """Each finding in a sentence, of its largest current scale; `page` has the rest."""
    return "".join(f"{_in_a_sentence(found, shipped, page)}\n" for found in FINDINGS)


def _in_a_sentence(found: Finding, shipped: Sequence[dict[str, Any]], page: str) -> str:
    shown = largest_current([each for each in shipped if each["result"]["name"] == found.experiment])
    numbers = [in_words(claim).measured for claim in _claims(found, shown)]
    answers = _answers(found, shown)
    if answers == found.needed:
        counted = found.counted(shown["result"]) if found.counted else ""
        said = found.sentence.format(*numbers, counted=counted)
    else:
        parts = zip(found.questions, answers, numbers, strict=True)
        said = f"**{found.about}**: " + "; ".join(
            f"{asked} {answer}, {number}" for asked, answer, number in parts
        )
    seeds = number_in_words(len(seeds_of(shown["result"])))
    where = f"[{found.experiment}]({page}#{found.experiment}), {shown['scale']} scale, {seeds} seeds"
    text = f"- {said} ({where}).".replace(" %", "\N{NO-BREAK SPACE}%")
    return textwrap.fill(text, 125, subsequent_indent="  ", break_on_hyphens=False)


def conclusion(shown: dict[str, Any]) -> str:
    """A shipped result's finding without numbers, for a picture's title; empty if it is not among them."""
    judged = {claim["name"] for claim in shown["result"]["claims"]}
    for found in FINDINGS:
        known = found.experiment == shown["result"]["name"] and judged.issuperset(found.claims)
        if known and _answers(found, shown) == found.needed:
            return found.sentence.split("**")[1]
    return ""


def _answers(found: Finding, shown: dict[str, Any]) -> tuple[str, ...]:
    return tuple(map(_answer, _claims(found, shown)))


def _claims(found: Finding, shown: dict[str, Any]) -> list[dict[str, Any]]:
    named = {claim["name"]: claim for claim in shown["result"]["claims"]}
    return [named[name] for name in found.claims]


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


def _standing(shipped: Sequence[dict[str, Any]]) -> tuple[int, int]:
    """How many of the verdicts that are judged again are one on nearly all sets of seeds, and of how many."""
    said = [
        each["findings"][0]
        for each in shipped
        if each["result"]["name"] in JUDGED_AGAIN and each["scale"] == "night"
    ]
    pairs = re.findall(r"(\d+) of (\d+) (?:premise|effect)s", " ".join(said))
    return sum(int(same) for same, _ in pairs), sum(int(every) for _, every in pairs)


def _withdrawn(shipped: Sequence[dict[str, Any]]) -> int:
    """How many claims of `make reproduce` are not judged there."""
    at_laptop = (each["result"] for each in shipped if each["scale"] == "laptop")
    return sum(
        bool(claim.get("withdrawn")) for each in at_laptop if each["name"] in ROWS for claim in each["claims"]
    )


def number_in_words(number: int) -> str:
    """As text has it: in words, if it has them here."""
    return IN_WORDS.get(number, str(number))


def placed(page: str, part: str, written: str) -> str:
    """The page with this part of it as `written`."""
    before, begin, rest = page.partition(PLACES[part])
    _, _, after = rest.partition(END)
    return before + begin + written + END + after
