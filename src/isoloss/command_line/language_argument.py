"""The language that a command is given as a file, of whichever kind."""

from pathlib import Path

from isoloss.command_line.options.language_file import MOST_SENTENCES
from isoloss.errors import BadInput
from isoloss.files import read_text
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
