"""The language that a command is given as a file, of whichever kind."""

from pathlib import Path

from isoloss.files import read_text
from isoloss.languages.causal_lm import CausalLM
from isoloss.languages.dyck import Dyck
from isoloss.languages.hmm import HMM
from isoloss.languages.language_file import EXPECTED, names_a_model, parse_language, refuse_maximum_length
from isoloss.languages.pcfg import PCFG

LanguageOfFile = PCFG | HMM | Dyck | CausalLM


def language_argument(path: Path, maximum_length: int | None) -> LanguageOfFile:
    """The language of a file, the kind of which its content tells.

    Raises BadInput for what `parse_language` and `read_causal_language` refuse.
    """
    text = read_text(path, EXPECTED)
    if not names_a_model(text):
        return parse_language(text, str(path), maximum_length)
    refuse_maximum_length(str(path), maximum_length)
    # Models take seconds to import, which the other languages need not wait for.
    from isoloss.models.causal_language import read_causal_language

    return read_causal_language(path)


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
