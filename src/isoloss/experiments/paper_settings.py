"""The paper's settings beside a scale's own, one setting per line, with the reasons for differences."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from isoloss.experiments.experiment import Experiment
from isoloss.experiments.paper_language_settings import (
    Rows,
    causal_language_rows,
    grammar_rows,
    hidden_markov_rows,
    real_text_rows,
)
from isoloss.experiments.paper_training_settings import (
    adversary_rows,
    descent_rows,
    enlarging_rows,
    fine_tuning_rows,
    measurement_rows,
    probe_rows,
    training_rows,
    transformer_rows,
)
from isoloss.experiments.planned_run import CorpusPlan
from isoloss.experiments.scale import Scale
from isoloss.experiments.shared.language_runs import AnyRuns
from isoloss.measurements.accuracy import AccuracyQuantity, FineTuning, LinearProbe
from isoloss.measurements.exact_loss import ExactLossQuantity
from isoloss.measurements.on_sentences.fisher_trace import TraceQuantity
from isoloss.pretraining.adversarial import Adversarial

SAME = "as the paper says"


@dataclass(frozen=True)
class PaperSetting:
    """One setting: what the paper says, what a scale does, and why."""

    name: str
    paper: str
    ours: str
    why: str = SAME


@dataclass(frozen=True)
class SettingsGroup:
    """The settings of one subject."""

    title: str
    settings: tuple[PaperSetting, ...]


def settings_of(scale: Scale, experiments: Sequence[Experiment] | None = None) -> tuple[SettingsGroup, ...]:
    """All settings that the paper gives or leaves open; of some experiments, those on which one depends.

    Raises BadInput for a scale whose languages are of other kinds than the paper's.
    """
    return tuple(
        SettingsGroup(title, tuple(PaperSetting(*row) for row in rows(scale)))
        for title, rows, concerns in GROUPS
        if experiments is None or any(concerns(scale, each) for each in experiments)
    )


def _trained_on(experiment: Experiment, *runs: AnyRuns) -> bool:
    return not {run.language.digest for run in experiment.runs}.isdisjoint(r.language.digest for r in runs)


def _measures(experiment: Experiment, *kinds: type) -> bool:
    """Whether it measures a quantity of one of these classes, or an accuracy of a head of one."""
    measured = (each.quantity for run in experiment.runs for each in run.measured)
    return any(
        isinstance(quantity.head if isinstance(quantity, AccuracyQuantity) else quantity, kinds)
        for quantity in measured
    )


GROUPS: tuple[tuple[str, Callable[[Scale], Rows], Callable[[Scale, Experiment], bool]], ...] = (
    ("PCFG (A.1)", grammar_rows, lambda at, e: _trained_on(e, at.grammar)),
    ("HMM (A.1, A.4)", hidden_markov_rows, lambda at, e: _trained_on(e, at.hidden_markov)),
    ("OPT (A.1)", causal_language_rows, lambda at, e: _trained_on(e, at.causal_language)),
    (
        "Real text (A.2, Section 4)",
        real_text_rows,
        lambda _, e: any(isinstance(run.language, CorpusPlan) for run in e.runs),
    ),
    (
        "Transformers (A.4, Table 3)",
        transformer_rows,
        lambda at, e: e.name == "table-3" or _trained_on(e, at.grammar),
    ),
    (
        "Pre-training (A.5)",
        training_rows,
        lambda at, e: _trained_on(e, at.grammar, at.hidden_markov, at.causal_language),
    ),
    ("SGD (B.2)", descent_rows, lambda _, e: e.name in ("figure-4", "figure-10")),
    (
        "Sizes that are enlarged to one (B.3, B.4, Table 4)",
        enlarging_rows,
        lambda _, e: e.name in ("figure-5", "table-4"),
    ),
    (
        "The adversary (A.5, Table 1)",
        adversary_rows,
        lambda _, e: any(isinstance(run.update_rule, Adversarial) for run in e.runs),
    ),
    (
        "Loss and trace (A.5, B.1)",
        measurement_rows,
        lambda _, e: _measures(e, ExactLossQuantity, TraceQuantity),
    ),
    ("Linear probe (A.5)", probe_rows, lambda _, e: _measures(e, LinearProbe)),
    ("Fine-tuning (A.5)", fine_tuning_rows, lambda _, e: _measures(e, FineTuning)),
)
"""Title, settings, and whether an experiment depends on them."""
