"""Small languages of every kind, each with all its sentences listed: the cases of the contract test.

A new kind joins the contract with one more `Case` here.
"""

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from math import comb
from pathlib import Path

import torch
from enumeration import enumerate_derivations
from hidden_paths_enumeration import PathEnumeration
from small_grammars import CASES as GRAMMARS

from isoloss.languages.dyck import dyck, write_dyck
from isoloss.languages.hmm import HMM, write_hmm
from isoloss.languages.language import Language
from isoloss.languages.language_file import read_language
from isoloss.languages.notation import write_grammar
from isoloss.languages.pcfg import pcfg, read_pcfg
from isoloss.languages.random_hmm import random_hmm
from isoloss.models.causal_language import ModelSource, read_causal_language, write_causal_language
from tiny_causal_models import CHOSEN, joint_log_probabilities, tiny_causal_model, tiny_language

Words = tuple[int, ...]


@dataclass(frozen=True)
class Case:
    """A language, the probability of every sentence it has, and the posterior of each task by class name.

    `write` makes its file, with whatever that refers to beside it, and `read` reads one; `bad` are texts to
    refuse.
    """

    make: Callable[[], Language]
    sentences: Callable[[], dict[Words, float]]
    write: Callable[[Path], object]
    read: Callable[[Path], Language]
    bad: tuple[str, ...]
    posterior: Callable[[str, Words], dict[str, float]] | None = None


def grammar_case(name: str) -> Case:
    grammar, maximum, complete = GRAMMARS[name]
    numbers = {word: number for number, word in enumerate(grammar.words)}

    @cache
    def sentences() -> dict[Words, float]:
        derived = enumerate_derivations(grammar, complete)
        return {tuple(numbers[w] for w in ws): p / derived.total for ws, p in derived.sentences.items()}

    def posterior(task: str, words: Words) -> dict[str, float]:
        derived = enumerate_derivations(grammar, complete)
        text = tuple(grammar.words[word] for word in words)
        length = None if task == "root" else int(task.removeprefix("prefix-"))
        whole = length is None or {len(own) for own in derived.sentences} == {length}
        return derived.root_posterior(text) if whole else derived.prefix_posterior(text[:length])

    return Case(
        make=lambda: pcfg(grammar, maximum),
        sentences=sentences,
        posterior=posterior,
        write=lambda path: path.write_text(write_grammar(grammar)),
        read=lambda path: read_pcfg(path, maximum),
        bad=("", "S -> 'a' [0.5]", "S -> S [1.0]"),
    )


def hmm_case(words: int, states: int, blocks: int, length: int) -> Case:
    def make() -> HMM:
        return random_hmm(words=words, states=states, blocks=blocks, length=length, seed=2)

    @cache
    def paths() -> PathEnumeration:
        language = make()
        return PathEnumeration(
            language.initial.tolist(), language.transition.tolist(), language.emission.tolist()
        )

    def posterior(task: str, sentence: Words) -> dict[str, float]:
        distribution = paths().state_posterior(sentence, int(task.removeprefix("state-")) - 1)
        return {str(state): p for state, p in enumerate(distribution, start=1)}

    return Case(
        make=make,
        sentences=cache(lambda: paths().sentences(length)),
        posterior=posterior,
        write=lambda path: path.write_text(write_hmm(make())),
        read=read_language,
        bad=("", "{}", "[]", '{"words": ["a"], "initial": [1]}'),
    )


def dyck_case(length: int, share: float = 1.0) -> Case:
    def sentences() -> dict[Words, float]:
        every = list(itertools.product((0, 1), repeat=length))
        of_all = dict.fromkeys(every, (1 - share) / 2**length) if share < 1 else {}
        balanced = [words for words in every if 2 * sum(words) == length]
        return of_all | {w: of_all.get(w, 0.0) + share / comb(length, length // 2) for w in balanced}

    def posterior(task: str, words: Words) -> dict[str, float]:
        assert task == "mismatches"
        counts = range(-length, length + 1, 2)
        return {str(count): float(count == 2 * sum(words) - length) for count in counts}

    return Case(
        make=lambda: dyck(length, share),
        sentences=sentences,
        posterior=posterior,
        write=lambda path: path.write_text(write_dyck(dyck(length, share))),
        read=read_language,
        bad=(
            "",
            "[]",
            '{"dyck": 8}',
            '{"dyck": {"length": 7}}',
            '{"dyck": {"length": true}}',
            '{"dyck": {"length": 8, "width": 1}}',
            '{"dyck": [8]}',
            '{"dyck": {"length": 8, "balanced_share": 0}}',
            '{"dyck": {"length": 8, "balanced_share": "all"}}',
        ),
    )


def causal_case(kind: str, length: int) -> Case:
    """A model with random weights over seven words, all of whose sentences go through full forward passes."""

    @cache
    def sentences() -> dict[Words, float]:
        every = list(itertools.product(range(len(CHOSEN)), repeat=length))
        probabilities = joint_log_probabilities(tiny_causal_model(kind), torch.tensor(every)).exp()
        return dict(zip(every, probabilities.tolist(), strict=True))

    def posterior(task: str, words: Words) -> dict[str, float]:
        first = [0.0] * len(CHOSEN)
        for sentence, p in sentences().items():
            first[sentence[0]] += p
        openings = sorted(range(len(CHOSEN)), key=lambda word: -first[word])[: int(task[-1])]
        joint = {"abcdefg"[word]: sentences()[(word, *words)] for word in openings}
        return {word: p / sum(joint.values()) for word, p in joint.items()}

    def write(path: Path) -> None:
        folder = path.with_name("model")
        tiny_causal_model(kind).save_pretrained(folder)
        source = ModelSource(str(folder), precision="float64")
        write_causal_language(tiny_language(kind, length), source, path)

    return Case(
        make=lambda: tiny_language(kind, length),
        sentences=sentences,
        write=write,
        read=read_causal_language,
        bad=("", "{}", "[]", '{"causal_language_model": "somewhere"}'),
        posterior=posterior,
    )


LANGUAGES = {
    "PCFG of one length": grammar_case("layered"),
    "recursive PCFG, cut": grammar_case("ambiguous, cut"),
    "PCFG with all there is": grammar_case("mixed, cut"),
    "dense HMM": hmm_case(words=3, states=3, blocks=1, length=4),
    "block-diagonal HMM": hmm_case(words=4, states=4, blocks=2, length=5),
    "Dyck": dyck_case(6),
    "Dyck among uniform strings": dyck_case(6, share=0.4),
    "causal LM": causal_case("gpt2", length=4),
}
