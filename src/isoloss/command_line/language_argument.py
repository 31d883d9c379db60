"""The language that a command is given as a file, of any kind."""

import json
import sys
from pathlib import Path

import torch

from isoloss.command_line.options.language_file import MOST_SENTENCES
from isoloss.errors import BadInput
from isoloss.files import read_text
from isoloss.inference.suffix_scores import SuffixCost
from isoloss.languages.causal_lm import CausalLM
from isoloss.languages.dyck import Dyck, parse_dyck
from isoloss.languages.grammar import check_well_formed
from isoloss.languages.hmm import HMM
from isoloss.languages.hmm_file import parse_hmm
from isoloss.languages.notation import parse_grammar
from isoloss.languages.pcfg import PCFG, pcfg
from isoloss.languages.termination import longest_sentence

EXPECTED = "a language: a grammar in NLTK's notation, or JSON of an HMM, a Dyck or a causal language"
LanguageOfFile = PCFG | HMM | Dyck | CausalLM


def language_argument(path: Path, maximum_length: int | None, longest: int) -> LanguageOfFile:
    """The language of a file, whose content determines the kind.

    Raises BadInput for what `parse_language` and `read_causal_language` refuse, and for sentences of more
    than `longest` words, before any work that grows with them.
    """
    text = read_text(path, EXPECTED)
    if names_a_model(text):
        refuse_maximum_length(str(path), maximum_length)
        # Models take seconds to import, which the other languages do not need.
        from isoloss.models.causal_language import read_causal_language

        model = read_causal_language(path)
        _refuse_longer(model.maximum_length, longest, path)
        return model
    if not _is_json(text):
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
    """Raise BadInput for more sentences than one call can draw."""
    if sentences > MOST_SENTENCES:
        raise BadInput(
            f"--sentences {sentences:,} is more than the {MOST_SENTENCES:,} that one call draws; "
            "draw fewer, or the rest with other seeds"
        )


def kind_of(language: LanguageOfFile) -> str:
    """The language's name in sentences."""
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
    """Report on stderr the cost of the masked distributions of one sentence."""
    _tell(language, language.distribution_cost(torch.arange(language.length)))


def tell_cost_of_one_position_each(language: CausalLM, sentences: int) -> None:
    """Report on stderr the mean cost of the masked distribution at one random position of each sentence."""
    whole, share = language.distribution_cost(torch.arange(language.length)), sentences / language.length
    _tell(language, SuffixCost(round(whole.tokens * share), whole.operations * share))


def _tell(language: CausalLM, cost: SuffixCost) -> None:
    print(
        f"masked distributions: {cost}, about {language.seconds(cost):,.0f} s here; Ctrl-C stops them",
        file=sys.stderr,
        flush=True,
    )


def read_language(path: Path | str, maximum_length: int | None = None) -> PCFG | HMM | Dyck:
    """The language of a file; see `parse_language`.

    Raises BadInput if there is no such file, if it is not text, or for what `parse_language` refuses.
    """
    return parse_language(read_text(Path(path), EXPECTED), str(path), maximum_length)


def parse_language(
    text: str, source: str = "the language", maximum_length: int | None = None
) -> PCFG | HMM | Dyck:
    """The language of a file's text: JSON of an HMM or Dyck, or else a grammar.

    Raises BadInput for what `parse_hmm`, `parse_dyck`, `parse_grammar` and `pcfg` refuse, for a maximum
    length given with a language of one length, and for a causal language, which needs its model and is read
    by `models.causal_language`.

    >>> parse_language('{"dyck": {"length": 4}}')
    Dyck(length=4, balanced_share=1.0)
    """
    if not _is_json(text):
        return pcfg(parse_grammar(text, source), maximum_length)
    refuse_maximum_length(source, maximum_length)
    if names_a_model(text):
        raise BadInput(f"{source} is a causal language; read it with models.causal_language")
    return parse_dyck(text, source) if "dyck" in _keys(text) else parse_hmm(text, source)


def names_a_model(text: str) -> bool:
    """Whether a file's text is that of a causal language.

    >>> names_a_model('{"causal_language_model": "facebook/opt-125m"}')
    True
    """
    return text.lstrip().startswith("{") and "causal_language_model" in _keys(text)


def refuse_maximum_length(source: str, maximum_length: int | None) -> None:
    """Raise BadInput for a maximum length, to which only a grammar can be truncated."""
    if maximum_length is not None:
        raise BadInput(
            f"{source} is no grammar, and its sentences have one length; leave the maximum length out"
        )


def _is_json(text: str) -> bool:
    """Whether a file's text is meant as JSON; no grammar starts with a brace or a bracket."""
    return text.lstrip().startswith(("{", "["))


def _keys(text: str) -> set[str]:
    """The keys of a JSON object; none if the text is not one, which its parser will report."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        return set()
    return set(content) if isinstance(content, dict) else set()
