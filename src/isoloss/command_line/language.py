"""`isoloss language`: the files of languages, made, and searches among random ones."""

from json import dumps
from pathlib import Path

from isoloss.command_line.language_argument import LanguageOfFile, kind_of
from isoloss.command_line.language_search import search_grammars, search_hmms
from isoloss.command_line.options.language import (
    CausalLMOptions,
    DyckOptions,
    GrammarOptions,
    HMMOptions,
    LanguageOptions,
    TeacherOptions,
)
from isoloss.command_line.options.language_search import GrammarSearchOptions, HMMSearchOptions
from isoloss.command_line.output_file import refuse_existing
from isoloss.command_line.progress_display import progress_display
from isoloss.command_line.seed import usable_seed
from isoloss.errors import BadInput
from isoloss.files import write_atomically
from isoloss.languages.dyck import write_dyck
from isoloss.languages.hmm_file import write_hmm
from isoloss.languages.notation import write_grammar
from isoloss.languages.pcfg import pcfg
from isoloss.languages.random_grammar import random_layered_grammar
from isoloss.languages.random_hmm import random_hmm


def language(options: LanguageOptions) -> None:
    """Write the file of a language of the kind that is asked for, or rank some."""
    match options.kind:
        case GrammarOptions():
            _grammar(options.kind)
        case HMMOptions():
            _hmm(options.kind)
        case DyckOptions():
            _dyck(options.kind)
        case CausalLMOptions():
            _causal_lm(options.kind)
        case TeacherOptions():
            _teacher(options.kind)
        case GrammarSearchOptions():
            search_grammars(options.kind)
        case HMMSearchOptions():
            search_hmms(options.kind)


def _grammar(options: GrammarOptions) -> None:
    """Write a random layered grammar; the defaults are the paper's sizes."""
    refuse_existing(options.out)
    upper = options.roots + options.symbols_per_level * (options.levels - 1)
    words = options.symbols_per_level * options.words_per_preterminal
    _refuse_more("rules", upper * options.rules_per_symbol + words, options.most_rules, "--most-rules")
    made = random_layered_grammar(
        words=options.words,
        symbols_per_level=options.symbols_per_level,
        levels=options.levels,
        rules_per_symbol=options.rules_per_symbol,
        roots=options.roots,
        words_per_preterminal=options.words_per_preterminal,
        seed=usable_seed(options.seed),
    )
    write_atomically(options.out, write_grammar(made))
    _tell(pcfg(made), options.out, options.json)


def _hmm(options: HMMOptions) -> None:
    """Write a random hidden Markov model; the defaults are the paper's sizes."""
    refuse_existing(options.out)
    numbers = options.states * (options.states + options.words)
    _refuse_more("numbers", numbers, options.most_numbers, "--most-numbers")
    made = random_hmm(
        words=options.words,
        states=options.states,
        blocks=options.blocks,
        length=options.length,
        seed=usable_seed(options.seed),
        transition_concentration=options.transition_concentration,
        emission_concentration=options.emission_concentration,
    )
    write_atomically(options.out, write_hmm(made))
    _tell(made, options.out, options.json)


def _dyck(options: DyckOptions) -> None:
    """Write the language of balanced strings of brackets."""
    from isoloss.languages.dyck import dyck as dyck_language

    refuse_existing(options.out)
    made = dyck_language(options.length)
    write_atomically(options.out, write_dyck(made))
    _tell(made, options.out, options.json)


def _causal_lm(options: CausalLMOptions) -> None:
    """Write the language of a pre-trained causal model, cut down to its most frequent tokens."""
    refuse_existing(options.out)
    seed = usable_seed(options.seed)
    from isoloss.models.causal_language import ModelSource, load_causal_language, write_causal_language

    place = str(Path(options.model).resolve()) if Path(options.model).is_dir() else options.model
    source = ModelSource(place, options.gguf_file, options.precision)
    with progress_display() as progress:
        made = load_causal_language(source, options.words, options.length, seed, progress)
    write_causal_language(made, source, options.out)
    _tell(made, options.out, options.json)


def _teacher(options: TeacherOptions) -> None:
    """Pre-train a small causal model on public-domain prose, in minutes, and write its language."""
    refuse_existing(options.out)
    from isoloss.corpora.fetched_package import default_cache
    from isoloss.experiments.teacher import Teacher, teacher_language
    from isoloss.models.causal_language import ModelSource, write_causal_language
    from isoloss.pretraining.checkpoint import checkpoint_folders

    chosen = Teacher(
        words=options.words, length=options.length, steps=options.steps, seed=usable_seed(options.seed)
    )
    with progress_display() as progress:
        made = teacher_language(chosen, options.cache or default_cache(), options.folder, progress)
    write_causal_language(
        made, ModelSource(str(checkpoint_folders(options.folder)[-1].resolve())), options.out
    )
    _tell(made, options.out, options.json)


def _refuse_more(things: str, needed: int, most: int, option: str) -> None:
    if needed > most:
        raise BadInput(
            f"these sizes make {needed:,} {things}, more than {most:,}; "
            f"give smaller ones, or {option} {needed}"
        )


def _tell(made: LanguageOfFile, out: Path, json: bool) -> None:
    facts = {
        "file": str(out),
        "kind": kind_of(made),
        "words": len(made.vocabulary),
        "maximum_length": made.maximum_length,
        "digest": made.digest,
    }
    if json:
        print(dumps(facts))
        return
    print(f"{out}: {facts['kind']}, {facts['words']:,} words, sentences of {facts['maximum_length']}")
