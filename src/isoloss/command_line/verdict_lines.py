"""Claims and verdicts as lines of text that are never wrapped: one line a claim, as wide as asked."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from isoloss.command_line.terminal import without_middle
from isoloss.experiments.claims import Judgement, Role
from isoloss.experiments.experiment_result import ExperimentResult
from isoloss.experiments.shipped_results import BesideShipped
from isoloss.report.overview import counts, verdicts_on
from isoloss.report.page import spoken
from isoloss.results.record import ABSENT
from isoloss.results.verdict import Verdict

ROLES: tuple[Role, ...] = ("effect", "premise", "withdrawn")
MARKS = {Verdict.SUPPORTED: "✓", Verdict.NOT_SUPPORTED: "✗", Verdict.INCONCLUSIVE: "?"}
WITHDRAWN, INDENT, GAP = "–", "  ", "  "
SHORTEST = 16
"""Characters of a claim's name that are always shown."""


@dataclass(frozen=True)
class ClaimLine:
    """One claim; `more` is said where there is room."""

    mark: str
    name: str
    number: str
    verdict: str
    more: tuple[str, ...]


def counted(judgements: Sequence[Judgement]) -> list[str]:
    """How many effects, and how many premises, got each verdict: a line each, with the verdict's mark."""
    lines = []
    for role in ("effect", "premise"):
        found = counts(verdicts_on(role, judgements))
        if total := sum(found.values()):
            told = ", ".join(f"{number} {MARKS[verdict]} {verdict}" for verdict, number in found.items())
            lines.append(f"{total} {role}{'s' * (total != 1)}: {told}")
    return lines


def claim_lines(
    result: ExperimentResult, beside: BesideShipped | None, width: int | None, *, judged: bool
) -> list[str]:
    """The experiment's title and a line a claim, each at most `width` characters (None: however long).

    Effects come before premises, then what is withdrawn. Where a line does not fit, its unit and what would
    decide it are left out, then the middle of its name. `judged` is false where the scale decides nothing.
    """
    lines = list(_lines(result.judgements, beside, judged=judged))
    if not lines:
        return []
    longest = max(len(line.name) for line in lines)
    numbers, verdicts = (max(len(getattr(line, part)) for line in lines) for part in ("number", "verdict"))
    if width is not None:
        rest = len(INDENT) + 1 + 1 + len(GAP) + numbers + (len(GAP) + verdicts if verdicts else 0)
        longest = min(longest, max(SHORTEST, width - rest))
    title = f"{spoken(result.experiment.name)}: {result.experiment.title}"
    return [_cut(title, width), *(_written(line, longest, numbers, verdicts, width) for line in lines)]


def _lines(
    judgements: Sequence[Judgement], beside: BesideShipped | None, *, judged: bool
) -> Iterator[ClaimLine]:
    for role in ROLES:
        for each in judgements:
            if each.claim.role != role:
                continue
            mark = WITHDRAWN if role == "withdrawn" else MARKS[each.verdict] if judged else " "
            number = _number(each)
            verdict = _verdict(each, beside) if judged else ""
            seeds = each.seeds_needed if judged and role != "withdrawn" else None
            more = [each.claim.reading.unit, f"{seeds} seeds would decide" if seeds else ""]
            yield ClaimLine(mark, each.claim.name, number, verdict, tuple(filter(None, more)))


def _number(judged: Judgement) -> str:
    read = judged.claim.reading
    value, low, high = (_digits(read.factor * number) for number in (judged.effect, judged.low, judged.high))
    return f"{value}{read.sign} ({low} to {high})"


def _verdict(judged: Judgement, beside: BesideShipped | None) -> str:
    if judged.claim.withdrawn:
        return "withdrawn"
    shipped = beside.shipped.claims.get(judged.claim.name) if beside is not None else None
    if shipped is None:
        return str(judged.verdict)
    return "same verdict as shipped" if shipped.verdict == judged.verdict else f"shipped: {shipped.verdict}"


def _written(line: ClaimLine, longest: int, numbers: int, verdicts: int, width: int | None) -> str:
    name = without_middle(line.name, longest)
    written = f"{INDENT}{line.mark} {name:<{longest}}{GAP}{line.number:<{numbers}}"
    if line.verdict:
        written += f"{GAP}{line.verdict:<{verdicts}}"
    for more in line.more:
        if width is None or len(written.rstrip() + GAP + more) <= width:
            written = f"{written}{GAP}{more}"
    return _cut(written.rstrip(), width)


def _cut(text: str, width: int | None) -> str:
    return text if width is None or len(text) <= width else f"{text[: width - 1]}…"


def _digits(value: float) -> str:
    return f"{value:.2g}" if value == value else ABSENT
