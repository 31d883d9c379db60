"""What every language guarantees, tested on every kind of language against all its sentences."""

import itertools
import pickle
from collections import Counter
from functools import cache
from math import fsum, inf, log
from pathlib import Path

import pytest
import torch
from enumeration import chi_square_passes
from language_cases import LANGUAGES, Case, Words

from isoloss.errors import BadInput
from isoloss.languages.language import (
    Derivation,
    Described,
    DrawsDerivations,
    Language,
    WritesItself,
    kind_of,
)
from isoloss.languages.language_file import parse_language
from isoloss.languages.sentences import PADDING, Sentences
from isoloss.languages.task import Task, task_splits

SHOWN = 60
every_language = pytest.mark.parametrize("name", LANGUAGES)
every_language_of_little_cost = pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.thorough] if name == "causal LM" else []) for name in LANGUAGES],
)


@cache
def language_of(name: str) -> Language:
    return LANGUAGES[name].make()


def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def some(case: Case) -> list[Words]:
    """Sentences of every length, but not all of them if there are very many."""
    words = sorted(case.sentences(), key=lambda own: (len(own), own))
    return words[:: max(1, len(words) // SHOWN)]


def padded(sentences: list[Words], columns: int = 0) -> Sentences:
    """A batch of sentences with `columns` more columns of padding than they need."""
    batch = Sentences.from_lists([list(words) for words in sentences])
    return Sentences(torch.nn.functional.pad(batch.ids, (0, columns), value=PADDING), batch.lengths)


def masked_distribution(case: Case, vocabulary: int, words: Words, place: int) -> list[float]:
    joint = [case.sentences().get((*words[:place], w, *words[place + 1 :]), 0.0) for w in range(vocabulary)]
    return [weight / fsum(joint) for weight in joint]


def next_distribution(case: Case, vocabulary: int, prefix: Words) -> list[float]:
    joint = [0.0] * (vocabulary + 1)
    for words, weight in case.sentences().items():
        if words[: len(prefix)] == prefix:
            joint[words[len(prefix)] if len(words) > len(prefix) else vocabulary] += weight
    return [weight / fsum(joint) for weight in joint]


@every_language
def test_it_is_a_language(name: str) -> None:
    language = language_of(name)
    assert isinstance(language, Language)
    assert len(set(language.vocabulary)) == len(language.vocabulary)
    assert language.maximum_length == max(map(len, LANGUAGES[name].sentences()))
    assert fsum(LANGUAGES[name].sentences().values()) == pytest.approx(1, abs=1e-12)


@every_language_of_little_cost
def test_sampled_frequencies_pass_a_chi_square_test(name: str) -> None:
    n, distribution = 20_000, LANGUAGES[name].sentences()
    drawn = language_of(name).sample(n, generator(1))
    rows = zip(drawn.ids.tolist(), drawn.lengths.tolist(), strict=True)
    counts = Counter(tuple(ids[:length]) for ids, length in rows)
    assert len([words for words in distribution if n * distribution[words] >= 5]) > 5
    assert chi_square_passes(counts, {words: n * p for words, p in distribution.items()})


@every_language
def test_lengths_and_padding_are_respected(name: str) -> None:
    drawn = language_of(name).sample(500, generator(2))
    assert drawn.ids.shape == (500, language_of(name).maximum_length)
    assert drawn.ids.dtype == drawn.lengths.dtype == torch.int64
    assert set(drawn.lengths.tolist()) <= {len(words) for words in LANGUAGES[name].sentences()}
    assert (drawn.ids[~drawn.real] == PADDING).all()
    assert (drawn.ids[drawn.real] >= 0).all()


@every_language
def test_the_same_seed_gives_the_same_sentences_whatever_the_batch_size(name: str) -> None:
    language, stream = language_of(name), generator(3)
    whole = language.sample(23, generator(3))
    parts = [language.sample(n, stream) for n in (10, 0, 1, 12)]
    assert torch.equal(torch.cat([part.ids for part in parts]), whole.ids)
    assert torch.equal(torch.cat([part.lengths for part in parts]), whole.lengths)
    assert not torch.equal(language.sample(23, generator(4)).ids, whole.ids)


@every_language_of_little_cost
def test_masked_distributions_are_those_of_enumeration(name: str) -> None:
    case, language = LANGUAGES[name], language_of(name)
    sentences = some(case)
    log_probabilities = language.masked_log_probabilities(padded(sentences, columns=2))
    assert log_probabilities.dtype == torch.float64
    for row, words in enumerate(sentences):
        for place in range(len(words)):
            expected = masked_distribution(case, len(language.vocabulary), words, place)
            assert log_probabilities[row, place].exp().tolist() == pytest.approx(
                expected, rel=1e-12, abs=1e-15
            )
        assert (log_probabilities[row, len(words) :] == -inf).all()
    real = padded(sentences, columns=2).real
    assert torch.allclose(log_probabilities[real].exp().sum(1), torch.ones(()).double(), atol=1e-12)


@every_language
def test_next_word_distributions_are_those_of_enumeration(name: str) -> None:
    case, language = LANGUAGES[name], language_of(name)
    sentences = some(case)
    log_probabilities = language.next_log_probabilities(padded(sentences, columns=2))
    assert log_probabilities.dtype == torch.float64
    for row, words in enumerate(sentences):
        for place in range(len(words) + 1):
            expected = next_distribution(case, len(language.vocabulary), words[:place])
            assert log_probabilities[row, place].exp().tolist() == pytest.approx(
                expected, rel=1e-12, abs=1e-14
            )
            assert log_probabilities[row, place].exp().sum().item() == pytest.approx(1, abs=1e-12)
        assert (log_probabilities[row, len(words) + 1 :] == -inf).all()


@every_language
def test_probabilities_are_those_of_enumeration_and_of_the_chain_rule(name: str) -> None:
    case, language = LANGUAGES[name], language_of(name)
    sentences = some(case)
    batch = padded(sentences, columns=1)
    log_probability = language.log_probability(batch)
    expected = [log(case.sentences()[words]) for words in sentences]
    assert log_probability.tolist() == pytest.approx(expected, rel=1e-12, abs=1e-12)
    following = language.next_log_probabilities(batch)
    words = following[:, :-1, :-1].gather(2, batch.ids.clamp(min=0)[:, :, None])[:, :, 0]
    ends = following[range(len(batch)), batch.lengths, -1]
    chained = torch.where(batch.real, words, 0.0).sum(1) + ends
    assert torch.allclose(chained, log_probability, rtol=1e-12, atol=1e-12)


@every_language
def test_sentences_outside_have_no_probability(name: str) -> None:
    case, language = LANGUAGES[name], language_of(name)
    words = range(len(language.vocabulary))
    short = [own for length in (1, 2, 3) for own in itertools.product(words, repeat=length)]
    outside = [own for own in short if own not in case.sentences()]
    outside.append((0,) * (language.maximum_length + 1))
    assert (language.log_probability(padded(outside)) == -inf).all()


@every_language
def test_distributions_do_not_depend_on_the_other_sentences_of_a_batch(name: str) -> None:
    language, sentences = language_of(name), some(LANGUAGES[name])[-9:]
    for distribution in (language.masked_log_probabilities, language.next_log_probabilities):
        together = distribution(padded(sentences)).exp()
        for row, words in enumerate(sentences):
            alone = distribution(padded([words]))[0].exp()
            assert torch.allclose(together[row, : len(alone)], alone, atol=1e-14)


@every_language
def test_no_sentences_have_no_distributions(name: str) -> None:
    language = language_of(name)
    nothing = language.sample(0, generator(0))
    words = len(language.vocabulary)
    assert language.masked_log_probabilities(nothing).shape == (0, language.maximum_length, words)
    assert language.next_log_probabilities(nothing).shape == (0, language.maximum_length + 1, words + 1)
    assert language.log_probability(nothing).shape == (0,)


@every_language
def test_numbers_that_are_no_words_and_empty_sentences_are_refused(name: str) -> None:
    language = language_of(name)
    for distribution in (
        language.masked_log_probabilities,
        language.next_log_probabilities,
        language.log_probability,
    ):
        for number in (len(language.vocabulary), -7):
            with pytest.raises(BadInput, match=rf"sentence 2, position 2: there is no word number {number}"):
                distribution(Sentences.from_lists([[0, 0], [0, number]]))
        with pytest.raises(BadInput, match="sentence 2 is empty"):
            distribution(Sentences.from_lists([[0], []]))


def test_digests_name_the_content() -> None:
    digests = {name: language_of(name).digest for name in LANGUAGES}
    assert len(set(digests.values())) == len(LANGUAGES)
    for name, digest in digests.items():
        assert int(digest, 16) > 0
        assert LANGUAGES[name].make().digest == digest


def assert_same(one: Language, other: Language) -> None:
    assert one.digest == other.digest
    drawn = one.sample(20, generator(5))
    assert torch.equal(other.sample(20, generator(5)).ids, drawn.ids)
    assert torch.equal(one.masked_log_probabilities(drawn), other.masked_log_probabilities(drawn))


@every_language_of_little_cost
def test_a_language_survives_the_way_to_another_process(name: str) -> None:
    assert_same(language_of(name), pickle.loads(pickle.dumps(language_of(name))))


@every_language_of_little_cost
def test_saved_and_loaded_languages_are_equal(name: str, tmp_path: Path) -> None:
    case, path = LANGUAGES[name], tmp_path / "language"
    case.write(path)
    assert_same(language_of(name), case.read(path))


@every_language
def test_bad_files_are_refused(name: str, tmp_path: Path) -> None:
    case = LANGUAGES[name]
    with pytest.raises(BadInput, match="there is no file"):
        case.read(tmp_path / "none")
    with pytest.raises(BadInput, match="is a folder"):
        case.read(tmp_path)
    path = tmp_path / "language"
    contents = [b"\xff\xfe\x00\x01", b"S\0\0", *(text.encode() for text in case.bad)]
    for content in contents:
        path.write_bytes(content)
        with pytest.raises(BadInput) as refusal:
            case.read(path)
        assert str(path) in str(refusal.value)
        assert "\n" not in str(refusal.value)


TASKS = [(name, task) for name in LANGUAGES for task in range(len(language_of(name).tasks()))]


@pytest.mark.parametrize(("name", "number"), TASKS)
def test_labels_are_the_argmax_of_the_posterior_of_enumeration(name: str, number: int) -> None:
    case, task = LANGUAGES[name], language_of(name).tasks()[number]
    assert isinstance(task, Task)
    assert case.posterior is not None
    drawn = task.sample(40, generator(0))
    again = task.sample(40, generator(0))
    assert torch.equal(drawn.sentences.ids, again.sentences.ids)
    assert torch.equal(drawn.labels, again.labels)
    assert drawn.posterior.shape == (40, len(task.classes))
    for row, length in enumerate(drawn.sentences.lengths.tolist()):
        words = tuple(drawn.sentences.ids[row, :length].tolist())
        expected = case.posterior(task.name, words)
        distribution = dict(zip(task.classes, drawn.posterior[row].tolist(), strict=True))
        assert distribution == pytest.approx(
            {c: expected.get(c, 0.0) for c in task.classes}, rel=1e-11, abs=1e-14
        )
        best = task.classes[int(drawn.labels[row])]
        assert expected[best] == pytest.approx(max(expected.values()), rel=1e-11)


@pytest.mark.parametrize("name", [name for name in LANGUAGES if language_of(name).tasks()])
def test_splits_share_no_sentence(name: str) -> None:
    splits = task_splits(language_of(name).tasks()[0], 60, 20, 20, seed=0)
    parts = [
        {tuple(ids) for ids in part.sentences.ids.tolist()}
        for part in (splits.train, splits.validation, splits.test)
    ]
    assert all(parts)
    assert sum(map(len, parts)) == len(set().union(*parts))


@every_language
def test_it_says_what_it_is(name: str) -> None:
    language = language_of(name)
    assert isinstance(language, Described)
    assert kind_of(language) == language.kind
    assert all(isinstance(text, str) and text for fact in language.facts() for text in fact)


@every_language
def test_its_file_if_it_has_one_reads_back_as_the_language(name: str) -> None:
    language = language_of(name)
    if isinstance(language, WritesItself):
        file = language.file()
        assert parse_language(file.text, file.name, file.maximum_length).digest == language.digest


@every_language
def test_its_derivations_if_it_draws_any_are_those_of_the_sentences(name: str) -> None:
    language = language_of(name)
    if isinstance(language, DrawsDerivations):
        trees = language.sample_derivations(5, generator(6))
        drawn = language.sample(5, generator(6))
        for tree, ids, length in zip(trees, drawn.ids.tolist(), drawn.lengths.tolist(), strict=True):
            assert leaves(tree) == [language.vocabulary[word] for word in ids[:length]]


def leaves(tree: Derivation) -> list[str]:
    return [leaf for child in tree.children for leaf in leaves(child)] if tree.children else [tree.label]
