"""Why language models with the same pre-training loss differ downstream.

The library defines languages whose exact distribution is known, pre-trains models on fresh sentences to
the same loss, measures them with error bars, and judges claims about them. The usual entry points are
re-exported here and imported on first access:

>>> import isoloss
>>> isoloss.pcfg.__module__
'isoloss.languages.pcfg'
"""

from importlib import import_module

__version__ = "0.2.0"

# Types for checkers are in __init__.pyi.
_MODULES = {
    "AdamW": "pretraining.descent",
    "MaskedObjective": "objectives.masked",
    "NextWordObjective": "objectives.next_word",
    "PreLayerNormTransformer": "models.transformers",
    "PretrainingSpecification": "pretraining.specification",
    "Record": "results.record",
    "Shape": "models.transformers",
    "decided_grammar": "experiments.languages",
    "find_run": "stored_runs.stored_run",
    "fisher_trace": "curvature.fisher_trace",
    "headline_grammar": "experiments.languages",
    "hessian_trace": "curvature.hessian_trace",
    "load_masked_language_model": "models.loading",
    "pcfg": "languages.pcfg",
    "pretrain": "pretraining.loop",
    "random_hmm": "languages.random_hmm",
    "random_layered_grammar": "languages.random_grammar",
    "read_pcfg": "languages.pcfg",
    "runs_in": "stored_runs.stored_run",
}
_PACKAGES = ("lab",)
__all__ = sorted((*_MODULES, *_PACKAGES))


def __getattr__(name: str) -> object:
    """Import a name of `__all__` from its module on first access."""
    if name in _PACKAGES:
        return import_module(f"{__name__}.{name}")
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
