"""Why language models with the same pre-training loss differ downstream.

The library defines languages whose exact distribution is known, pre-trains models on fresh sentences to
the same loss, measures them with error bars, and judges claims about them. The usual entry points are
re-exported here and imported on first access:

>>> import isoloss
>>> isoloss.pcfg.__module__
'isoloss.languages.pcfg'
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from isoloss.curvature.fisher_trace import fisher_trace
    from isoloss.curvature.hessian_trace import hessian_trace
    from isoloss.languages.pcfg import pcfg, read_pcfg
    from isoloss.languages.random_grammar import random_layered_grammar
    from isoloss.languages.random_hmm import random_hmm
    from isoloss.models.loading import load_masked_language_model
    from isoloss.models.shapes import Shape
    from isoloss.models.transformers import PreLayerNormTransformer
    from isoloss.objectives.masked import MaskedObjective
    from isoloss.objectives.next_word import NextWordObjective
    from isoloss.pretraining.adamw import AdamW
    from isoloss.pretraining.loop import pretrain
    from isoloss.pretraining.specification import PretrainingSpecification
    from isoloss.results.record import Record
    from isoloss.stored_runs.stored_run import find_run, runs_in

__version__ = "0.2.0"

__all__ = [
    "AdamW",
    "MaskedObjective",
    "NextWordObjective",
    "PreLayerNormTransformer",
    "PretrainingSpecification",
    "Record",
    "Shape",
    "find_run",
    "fisher_trace",
    "hessian_trace",
    "load_masked_language_model",
    "pcfg",
    "pretrain",
    "random_hmm",
    "random_layered_grammar",
    "read_pcfg",
    "runs_in",
]

_MODULES = {
    "AdamW": "pretraining.adamw",
    "MaskedObjective": "objectives.masked",
    "NextWordObjective": "objectives.next_word",
    "PreLayerNormTransformer": "models.transformers",
    "PretrainingSpecification": "pretraining.specification",
    "Record": "results.record",
    "Shape": "models.shapes",
    "find_run": "stored_runs.stored_run",
    "fisher_trace": "curvature.fisher_trace",
    "hessian_trace": "curvature.hessian_trace",
    "load_masked_language_model": "models.loading",
    "pcfg": "languages.pcfg",
    "pretrain": "pretraining.loop",
    "random_hmm": "languages.random_hmm",
    "random_layered_grammar": "languages.random_grammar",
    "read_pcfg": "languages.pcfg",
    "runs_in": "stored_runs.stored_run",
}


def __getattr__(name: str) -> object:
    """Import a name of `__all__` from its module on first access."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
