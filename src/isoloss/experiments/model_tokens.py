"""An experiment's models with more tokens than their language has words."""

from dataclasses import replace

from isoloss.errors import BadInput
from isoloss.experiments.experiment import Experiment
from isoloss.experiments.planned_run import CorpusPlan, PlannedRun
from isoloss.measurements.references import ControlQuantity, Untrained
from isoloss.models.lstm import LSTM
from isoloss.models.transformers import (
    Architecture,
    GPT2Transformer,
    PostLayerNormTransformer,
    PreLayerNormTransformer,
)
from isoloss.objectives.tokens import vocabulary_settings

WithTokens = PreLayerNormTransformer | PostLayerNormTransformer | GPT2Transformer | LSTM
"""The architectures whose number of tokens can be set."""


def with_tokens(experiment: Experiment, tokens: int) -> Experiment:
    """The same with models of languages that have so many tokens, such as `WHOLE_TOKENIZER`.

    Students of a causal model have all of their teacher's as they are, and models of text their tokenizer's.
    Raises BadInput where a language has more words, or an architecture no number of tokens.
    """
    references = tuple(
        replace(reference, quantity=_control_with_tokens(reference.quantity, tokens))
        if isinstance(reference.quantity, ControlQuantity)
        else reference
        for reference in experiment.references
    )

    def enlarged(run: PlannedRun) -> PlannedRun:
        if isinstance(run.language, CorpusPlan):
            return run
        vocabulary_settings(run.language.words, tokens)
        return replace(run, architecture=_with_tokens(run.architecture, tokens))

    runs = tuple(run.changed(enlarged) for run in experiment.runs)
    return replace(experiment, runs=runs, references=references)


def _control_with_tokens(quantity: ControlQuantity, tokens: int) -> ControlQuantity:
    if not isinstance(quantity.control, Untrained):
        return quantity
    architecture = _with_tokens(quantity.control.architecture, tokens)
    return replace(quantity, control=replace(quantity.control, architecture=architecture))


def _with_tokens(architecture: Architecture, tokens: int) -> Architecture:
    if not isinstance(architecture, WithTokens):
        raise BadInput(f"a {type(architecture).__name__} has no number of tokens to set; leave --tokens out")
    return architecture if architecture.tokens is not None else replace(architecture, tokens=tokens)
