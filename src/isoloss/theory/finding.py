"""A number predicted by a statement, the number computed, and the verdict."""

import math
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from isoloss.panels import Panel
from isoloss.progress import Progress
from isoloss.results.estimate import CONFIDENCE, Estimate
from isoloss.results.record import as_text
from isoloss.results.verdict import Verdict

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Relation = Literal["equal to", "at least", "at most"]
SIGNS: dict[Relation, str] = {"equal to": "", "at least": "≥ ", "at most": "≤ "}


@dataclass(frozen=True)
class Finding:
    """`measured` stands in `relation` to `predicted`, to within `tolerance` (absolute, in `unit`).

    `standard_error` is None for a number without sampling error; `n` is the sample size behind the error bar,
    or the number of cases computed. `paper` gives the number in the paper's text where the arithmetic
    corrects it. Tolerances are fixed before the computation; by default the relation is exact.
    """

    name: str
    sentence: str
    source: str
    measured: float
    relation: Relation
    predicted: float
    _: KW_ONLY
    standard_error: float | None = None
    n: int
    unit: str = ""
    tolerance: float = 0.0
    paper: str = ""

    @property
    def prediction(self) -> str:
        """The number predicted, with the sign of its relation.

        >>> Finding("error", "It is small.", "Lemma 1", 0.0, "at most", 0.5, n=1, tolerance=0.0).prediction
        '≤ 0.5'
        """
        return f"{SIGNS[self.relation]}{as_text(self.predicted)}"

    @property
    def verdict(self) -> Verdict:
        """Supported if the whole 95 % interval agrees, not supported if none of it does.

        >>> from dataclasses import replace
        >>> near = Finding(
        ...     "slope", "It is 1.", "Lemma 1", 1.02, "equal to", 1.0,
        ...     standard_error=0.004, n=50, tolerance=0.05,
        ... )
        >>> str(near.verdict)
        'supported'
        >>> str(replace(near, relation="at most", standard_error=0.1, tolerance=0.0).verdict)
        'inconclusive'
        >>> str(replace(near, n=1).verdict)
        'inconclusive'
        """
        error, excess = self.standard_error, self._excess
        reach = Estimate(0.0, error, self.n).interval(CONFIDENCE)[1] if error else 0.0
        if excess + reach <= self.tolerance:
            return Verdict.SUPPORTED
        # A number that is not one has no interval either; a number alone without its error decides nothing.
        contradicts = math.isinf(excess) or excess - reach > self.tolerance
        return Verdict.NOT_SUPPORTED if contradicts else Verdict.INCONCLUSIVE

    @property
    def _excess(self) -> float:
        """The distance of the number from the prediction; infinite for nan."""
        difference = self.measured - self.predicted
        if math.isnan(difference):
            return math.inf
        excess = {"equal to": abs(difference), "at least": -difference, "at most": difference}
        return excess[self.relation]


def estimated(
    name: str,
    sentence: str,
    source: str,
    measured: Estimate,
    relation: Relation,
    predicted: float,
    *,
    unit: str = "",
    tolerance: float = 0.0,
    paper: str = "",
) -> Finding:
    """The finding on a number that has a sampling error, and as many units as the estimate."""
    return Finding(
        name,
        sentence,
        source,
        measured.value,
        relation,
        predicted,
        standard_error=measured.standard_error,
        n=measured.n,
        unit=unit,
        tolerance=tolerance,
        paper=paper,
    )


def vanishing(
    name: str,
    sentence: str,
    source: str,
    gaps: Sequence[float],
    tolerance: float,
    *,
    unit: str = "",
    paper: str = "",
) -> Finding:
    """The finding that the largest of several numbers, none of them negative, is 0 without sampling error."""
    largest, n = float(np.max(gaps)), len(gaps)  # nan, if any of them is
    return Finding(
        name, sentence, source, largest, "equal to", 0.0, n=n, unit=unit, tolerance=tolerance, paper=paper
    )


@dataclass(frozen=True)
class Statement:
    """A lemma or theorem as tested: its findings, its pictures, and everything on which they depend.

    `text` says in words what was computed and how it could have failed; `settings` are names and values
    (seeds, n, step sizes), `corrections` sentences on differences between the paper's constants and the
    arithmetic.
    """

    name: str
    title: str
    text: str
    findings: tuple[Finding, ...]
    panels: tuple[Panel, ...]
    settings: tuple[tuple[str, str], ...]
    corrections: tuple[str, ...] = ()


def stated(settings: "DataclassInstance") -> tuple[tuple[str, str], ...]:
    """Every field and its value, in order, as in `Statement.settings`.

    >>> from dataclasses import make_dataclass
    >>> stated(make_dataclass("S", ["length", "seeds"])(6, (1, 2)))
    (('length', '6'), ('seeds', '1, 2'))
    """
    return tuple(
        (name, ", ".join(map(str, value)) if isinstance(value, tuple) else str(value))
        for name, value in asdict(settings).items()
    )


@dataclass(frozen=True)
class Entry:
    """A statement's name, the function of its settings that computes it, and its two sizes.

    Settings are a frozen dataclass of numbers and of tuples of numbers. `seconds` is the approximate time of
    the full size on one core, used only for the order of the work and the progress.
    """

    name: str
    compute: Callable[[Any, Progress], Statement]
    full: Any
    smoke: Any
    seconds: float
