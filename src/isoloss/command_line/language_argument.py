"""The language that a command is given as a file, of whichever kind."""

import sys
from pathlib import Path

import torch

from isoloss.command_line.options.language_file import MOST_SENTENCES
from isoloss.errors import BadInput
from isoloss.files import read_text
from isoloss.inference.suffix_scores import SuffixCost
from isoloss.languages.causal_lm import CausalLM
from isoloss.languages.dyck import Dyck
from isoloss.languages.grammar import check_well_formed
from isoloss.languages.hmm import HMM
from isoloss.languages.language_file import EXPECTED, names_a_model, parse_language, refuse_maximum_length
from isoloss.languages.notation import parse_grammar
from isoloss.languages.pcfg import PCFG, pcfg
from isoloss.languages.termination import longest_sentence

LanguageOfFile = PCFG | HMM | Dyck | CausalLM


def language_argument(path: Path, maximum_length: int | None, longest: int) -> LanguageOfFile:
    """The language of a file, the kind of which its content tells.

    Raises BadInput for what `parse_language` and `read_causal_language` refuse, and for sentences of more
    than `longest` words, before any work that grows with them.
    """
    text = read_text(path, EXPECTED)
    if names_a_model(text):
        refuse_maximum_length(str(path), maximum_length)
        # Models take seconds to import, which the other languages need not wait for.
        from isoloss.models.causal_language import read_causal_language

        model = read_causal_language(path)
        _refuse_longer(model.maximum_length, longest, path)
        return model
    if not text.lstrip().startswith("{"):
        grammar = parse_grammar(text, str(path))
        check_well_formed(grammar)
        words = [each for each in (maximum_length, longest_sentence(grammar)) if each is not None]
        _refuse_longer(min(words, default=None), longest, path)
        return pcfg(grammar, maximum_length)
    language = parse_language(text, str(path), maximum_length)
    _refuse_longer(language.maximum_length, longest, path)
    return language


def _refuse_longer(words: int | None, longest: int, path: Path) -> None:
    if words is not None and words > longest:
        raise BadInput(
            f"{path}: sentences of {words:,} words are longer than {longest:,}; "
            f"--longest {words} takes them, if time and memory do"
        )


def refuse_too_many(sentences: int) -> None:
    """Raise BadInput for more sentences than one call draws."""
    if sentences > MOST_SENTENCES:
        raise BadInput(
            f"--sentences {sentences:,} is more than the {MOST_SENTENCES:,} that one call draws; "
            "draw fewer, or the rest with other seeds"
        )


def kind_of(language: LanguageOfFile) -> str:
    """What the language is called in sentences."""
    match language:
        case PCFG():
            return "grammar"
        case HMM():
            return "HMM"
        case Dyck():
            return "Dyck language"
        case CausalLM():
            return "causal language"


def tell_cost_of_all_positions(language: CausalLM) -> None:
    """Say on stderr what the masked laws of one sentence take."""
    _tell(language, language.law_cost(torch.arange(language.length)))


def tell_cost_of_one_position_each(language: CausalLM, sentences: int) -> None:
    """Say on stderr what the masked law of one random position of each sentence takes on average."""
    whole, share = language.law_cost(torch.arange(language.length)), sentences / language.length
    _tell(language, SuffixCost(round(whole.tokens * share), whole.operations * share))


def _tell(language: CausalLM, cost: SuffixCost) -> None:
    print(
        f"masked laws: {cost}, about {language.seconds(cost):,.0f} s here; Ctrl-C stops them",
        file=sys.stderr,
        flush=True,
    )
