"""What a language says of itself: its kind, and names and values in words."""

import math

from isoloss.languages.causal_lm import CausalLM
from isoloss.languages.dyck import Dyck
from isoloss.languages.hmm import HMM
from isoloss.languages.language import Language
from isoloss.languages.pcfg import PCFG
from isoloss.models.restricted_causal import RestrictedCausalModel

Facts = tuple[tuple[str, str], ...]


def language_facts(language: Language) -> tuple[str, Facts]:
    """The kind of a language, and its facts.

    >>> from isoloss.languages.dyck import dyck
    >>> language_facts(dyck(4))[1][:3]
    (('words', '2'), ('longest sentence', '4 words'), ('strings', '6, all as likely'))
    """
    kind, own = _own(language)
    size: Facts = (
        ("words", f"{len(language.vocabulary):,}"),
        ("longest sentence", f"{language.maximum_length} words"),
    )
    return kind, (*size, *own, ("digest", language.digest))


def _own(language: Language) -> tuple[str, Facts]:
    match language:
        case PCFG():
            symbols, rules = len(language.grammar.symbols), len(language.grammar.rules)
            return "probabilistic grammar", (("symbols", f"{symbols:,}"), ("rules", f"{rules:,}"))
        case HMM():
            connected = f"{(language.transition > 0).sum().item() / language.transition.numel():.0%}"
            return "hidden Markov model", (
                ("states", f"{len(language.initial):,}"),
                ("transitions that are possible", connected),
            )
        case Dyck():
            strings = math.comb(language.length, language.length // 2)
            return "Dyck language", (("strings", f"{strings:,}, all as likely"),)
        case CausalLM():
            return "causal language model", (
                *_model(language),
                ("words chosen by", language.restriction.rule),
            )
        case _:
            return type(language).__name__, ()


def _model(language: CausalLM) -> Facts:
    if not isinstance(language.model, RestrictedCausalModel):
        return ()
    model = language.model.model
    return (
        ("model", f"{type(model).__name__} of {model.name_or_path or 'memory'}"),
        ("parameters", f"{sum(p.numel() for p in model.base_model.parameters()):,} without the output layer"),
        ("precision", str(model.dtype).removeprefix("torch.")),
        ("weights", language.weights),
    )
