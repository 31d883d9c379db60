"""Languages from files, whose kind is read from their content."""

from pathlib import Path

from isoloss.errors import BadInput
from isoloss.files import read_text
from isoloss.languages.hmm import HMM
from isoloss.languages.hmm_file import parse_hmm
from isoloss.languages.notation import parse_grammar
from isoloss.languages.pcfg import PCFG, pcfg


def read_language(path: Path | str, maximum_length: int | None = None) -> PCFG | HMM:
    """The HMM of a file that holds JSON, which starts with a brace, or else the language of a grammar file.

    Raises BadInput for what `parse_hmm`, `parse_grammar` and `pcfg` refuse, and for a maximum length given
    with an HMM, whose sentences have one length.
    """
    text = read_text(Path(path), "a grammar in NLTK's notation or an HMM in JSON")
    if not text.lstrip().startswith("{"):
        return pcfg(parse_grammar(text, str(path)), maximum_length)
    if maximum_length is not None:
        raise BadInput(f"{path} is an HMM, whose sentences have one length; leave the maximum length out")
    return parse_hmm(text, str(path))
