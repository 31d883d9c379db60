"""The paper's "-dropout-WD": the same model and optimiser without explicit regularisation."""

from dataclasses import replace
from typing import Any, TypeVar

from isoloss.errors import BadInput
from isoloss.pretraining.adamw import AdamW

A = TypeVar("A")


def without_regularisation(architecture: A, rule: AdamW) -> tuple[A, AdamW]:
    """The architecture with dropout 0 and the rule with weight decay 0 (Section 2.2, "-dropout-WD").

    Raises BadInput for an architecture that has no dropout to switch off.

    >>> from isoloss.models.shapes import laptop_shape
    >>> from isoloss.models.transformers import PreLayerNormTransformer
    >>> architecture, rule = without_regularisation(PreLayerNormTransformer(laptop_shape(16)), AdamW())
    >>> architecture.dropout, rule.weight_decay, rule.learning_rate
    (0.0, 0.0, 0.001)
    """
    settings: Any = architecture
    if not hasattr(settings, "dropout"):
        raise BadInput(
            f"{type(architecture).__name__} has no dropout to switch off; set the rule's weight decay to 0"
        )
    bare: A = replace(settings, dropout=0.0)
    return bare, replace(rule, weight_decay=0.0)
