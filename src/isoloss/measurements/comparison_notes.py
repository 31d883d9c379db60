"""What is to be known of a comparison's numbers beside them: sentences on texts, and warnings."""

from isoloss.measurements.checkpoint_comparison import Comparison
from isoloss.measurements.measured_models import warnings_of
from isoloss.measurements.verdicts import ACCURACIES, LOSS, PROBE

_CUT = (
    (LOSS, "cut", "sentences of the text were truncated to what the model can read"),
    (LOSS, "too_short", "sentences of the text have nothing to predict and are left out"),
    (PROBE, "cut", "examples of the test were truncated"),
)
"""The quantity and setting of the records that are counted, and what is counted."""


def notes_on(comparison: Comparison) -> list[str]:
    """On unequal numbers of sentences, on texts truncated or left out, and why not to trust some numbers."""
    return [*_unequal_numbers(comparison), *_cut(comparison), *warnings_of(comparison.records)]


def _unequal_numbers(comparison: Comparison) -> list[str]:
    """On each quantity that was measured on more sentences for one model than for another.

    Where a precision is asked for, each is measured until it has that.
    """
    told = []
    for name in comparison.names:
        found = {each.name: comparison.measurement(each, name) for each in comparison.checkpoints}
        numbers = {each: one.records[0].n for each, one in found.items() if one is not None}
        if name not in ACCURACIES and len(set(numbers.values())) > 1:
            of_models = ", ".join(f"{n:,} for {each}" for each, n in numbers.items())
            told.append(
                f"The {name.replace('_', ' ')} is over {of_models} sentences; two models' difference is "
                "over those that both were measured on, so it need not be that of the two numbers."
            )
    return told


def _cut(comparison: Comparison) -> list[str]:
    """What was truncated or left out for each checkpoint."""
    told = []
    for checkpoint in comparison.checkpoints:
        for name, setting, what in _CUT:
            if (found := comparison.measurement(checkpoint, name)) is None:
                continue
            whole = found.records[0]
            if count := int(whole.settings.get(setting) or 0):
                of = whole.n + count * (setting == "too_short")
                told.append(f"{checkpoint.name}: {count:,} of {of:,} {what}.")
    return told
