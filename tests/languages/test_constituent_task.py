import math

import pytest
import torch
from enumeration import Enumeration, enumerate_derivations
from small_grammars import CASES
from test_pcfg import encoded

from isoloss.errors import BadInput
from isoloss.languages.constituent_task import (
    ConstituentTask,
    constituent_task,
    leftmost_constituents,
    likelihood_task,
    prefix_task,
    root_task,
)
from isoloss.languages.notation import parse_grammar
from isoloss.languages.pcfg import PCFG, pcfg
from isoloss.languages.random_grammar import laptop_grammar
from isoloss.languages.sampling import Derivations, sentence_keys
from isoloss.languages.sentences import Sentences
from isoloss.languages.task import Task

BOUNDED = [name for name in CASES if name not in ("subcritical, whole", "one word")]


def case(name: str) -> tuple[PCFG, Enumeration]:
    written, maximum, complete = CASES[name]
    return pcfg(written, maximum), enumerate_derivations(written, complete)


def by_class(task: ConstituentTask, posterior: torch.Tensor) -> dict[str, float]:
    distribution = dict(zip(task.classes, posterior.tolist(), strict=True))
    return {symbol: weight for symbol, weight in distribution.items() if weight > 0}


@pytest.mark.parametrize("length", [2, 3])
@pytest.mark.parametrize("name", BOUNDED)
def test_prefix_posteriors_are_those_of_enumeration(name: str, length: int) -> None:
    language, enumeration = case(name)
    if not any(length in chain for _, chain, _ in enumeration.chains):
        with pytest.raises(BadInput, match="no symbol spans the first"):
            prefix_task(language, length)
        return
    task = prefix_task(language, length)
    drawn = task.sample(40, torch.Generator().manual_seed(0))
    for ids, posterior, label in zip(drawn.sentences.ids, drawn.posterior, drawn.labels, strict=True):
        words = tuple(language.vocabulary[word] for word in ids[:length].tolist())
        expected = enumeration.prefix_posterior(words)
        assert by_class(task, posterior) == pytest.approx(expected, rel=1e-11)
        assert expected[task.classes[label]] == pytest.approx(max(expected.values()), rel=1e-11)


@pytest.mark.parametrize("name", BOUNDED)
def test_root_posteriors_are_those_of_enumeration(name: str) -> None:
    language, enumeration = case(name)
    task = root_task(language)
    drawn = task.sample(40, torch.Generator().manual_seed(0))
    for row in range(40):
        ids = drawn.sentences.ids[row, : drawn.sentences.lengths[row]].tolist()
        words = tuple(language.vocabulary[word] for word in ids)
        assert by_class(task, drawn.posterior[row]) == pytest.approx(
            enumeration.root_posterior(words), rel=1e-11
        )


@pytest.mark.parametrize(
    "name",
    [
        *("mixed, cut", "ambiguous, cut", "rounded"),
        *(pytest.param(name, marks=pytest.mark.thorough) for name in ("mixed", "supercritical, cut")),
    ],
)
def test_only_sentences_with_the_constituent_are_drawn(name: str) -> None:
    """The first words' frequencies against the weight of derivations in which they are a constituent."""
    language, enumeration = case(name)
    weights: dict[tuple[str, ...], float] = {}
    for words, chain, weight in enumeration.chains:
        if 2 in chain:
            weights[words[:2]] = weights.get(words[:2], 0.0) + weight
    n, total = 8000, math.fsum(weights.values())
    drawn = prefix_task(language, 2).sample(n, torch.Generator().manual_seed(5))
    seen: dict[tuple[str, ...], int] = {}
    for first, second in drawn.sentences.ids[:, :2].tolist():
        words = (language.vocabulary[first], language.vocabulary[second])
        seen[words] = seen.get(words, 0) + 1
    assert set(seen) <= set(weights)
    for words, weight in weights.items():
        mean = n * weight / total
        assert abs(seen.get(words, 0) - mean) < 4.5 * (mean * (1 - weight / total)) ** 0.5 + 1e-9


def test_tasks_of_a_layered_grammar_are_named_by_their_lengths() -> None:
    tasks = pcfg(laptop_grammar(0)).tasks()
    assert [task.name for task in tasks] == ["prefix-8", "prefix-4", "prefix-2"]
    assert tasks[0].classes == ("R1", "R2")
    assert tasks[2].classes == ("L2_1", "L2_2")
    assert all(isinstance(task, Task) for task in tasks)


def test_the_likelihood_task_leaves_the_prior_out() -> None:
    language = pcfg(laptop_grammar(0))
    sentences = language.sample(50, torch.Generator().manual_seed(0))
    with_prior, without = prefix_task(language, 4), likelihood_task(language, 4)
    prior = with_prior.prior[with_prior.prior > 0]
    weighted = without.label(sentences).posterior * prior
    expected = weighted / weighted.sum(1, keepdim=True)
    assert torch.allclose(with_prior.label(sentences).posterior, expected, rtol=1e-12)
    assert without.name == "prefix-4-likelihood"


def test_a_class_for_every_symbol_changes_no_label_and_no_posterior() -> None:
    language = pcfg(laptop_grammar(0))
    few, all_of_them = (constituent_task(language, name) for name in ("prefix-4", "prefix-4-of-all"))
    assert set(few.classes) < set(all_of_them.classes) == {s.name for s in language.grammar.symbols[1:]}
    drawn = few.sample(20, torch.Generator().manual_seed(0))
    again = all_of_them.label(drawn.sentences)
    for row in range(20):
        assert by_class(all_of_them, again.posterior[row]) == by_class(few, drawn.posterior[row])
        assert all_of_them.classes[again.labels[row]] == few.classes[drawn.labels[row]]


def test_a_task_is_found_by_name_however_rare() -> None:
    rare = pcfg(parse_grammar("S -> A 'z' [0.1] | 'z' [0.9]\nA -> B 'x' [0.5] | 'x' B [0.5]\nB -> 'y' [1]"))
    assert "prefix-2" not in [task.name for task in rare.tasks()]
    assert constituent_task(rare, "prefix-2").classes == ("A",)
    laptop = pcfg(laptop_grammar(0))
    for name in ("prefix-8", "prefix-4", "prefix-4-likelihood"):
        assert constituent_task(laptop, name).name == name
    for name in ("prefix-3", "prefix-999999", "prefix-04", "state-1", "prefix-4-posterior"):
        with pytest.raises(BadInput, match=f"no task '{name}'; choose prefix-8, prefix-4, prefix-2"):
            constituent_task(laptop, name)


def test_ties_go_to_the_first_class() -> None:
    from small_grammars import grammar

    same = "'x' C [0.3] | C 'x' [0.7]"
    text = f"S -> A [0.5] | B [0.5]\nB -> {same}\nA -> {same}\nC -> 'x' [1.0]"
    language = pcfg(grammar(text))
    assert root_task(language).classes == ("B", "A")
    assert not root_task(language).sample(20, torch.Generator().manual_seed(0)).labels.any()


def test_sampling_is_reproducible_and_splits_nothing_off() -> None:
    task = pcfg(laptop_grammar(0)).tasks()[1]
    one, other = (task.sample(30, torch.Generator().manual_seed(2)) for _ in range(2))
    assert torch.equal(one.sentences.ids, other.sentences.ids)
    assert torch.equal(one.labels, other.labels)
    assert len(one) == 30


def test_words_that_no_class_spans_are_refused() -> None:
    language, _ = case("mixed")
    with pytest.raises(BadInput, match="sentence 1 has no constituent"):
        prefix_task(language, 2).label(encoded(language, [("runs", "runs", "runs")]))


def test_single_words_are_no_constituents() -> None:
    language = pcfg(laptop_grammar(0))
    for length in (1, 0, -3):
        with pytest.raises(BadInput, match=f"at least 2 words, not {length}"):
            prefix_task(language, length)
    for name in ("prefix-1", "prefix-1-likelihood", "prefix-1-of-all"):
        with pytest.raises(BadInput, match="no task 'prefix-1"):
            constituent_task(language, name)


def test_constituents_that_hardly_a_sentence_has_are_refused() -> None:
    text = "S -> A 'z' [{}] | 'z' [{}]\nA -> 'x' B [1]\nB -> 'y' [1]"
    seldom = pcfg(parse_grammar(text.format("0.01", "0.99")))
    assert len(constituent_task(seldom, "prefix-2").sample(5, torch.Generator().manual_seed(0))) == 5
    for share, others in (("1e-12", "0.999999999999"), ("0.0009", "0.9991")):
        never = pcfg(parse_grammar(text.format(share, others)))
        with pytest.raises(BadInput, match=f"first 2 words of {share} of all sentences, too few to draw"):
            constituent_task(never, "prefix-2")


def test_a_tasks_share_is_that_among_the_sentences_that_are_kept() -> None:
    """A tenth of the grammar's sentences have the constituent, and half of those of three words at most."""
    rules = "S -> A 'z' [0.05] | B 'z' [0.05] | 'q' [0.1] | 'w' 'w' 'w' 'w' [0.8]"
    language = pcfg(parse_grammar(f"{rules}\nA -> 'x' 'y' [1]\nB -> 'y' 'x' [1]"), 3)
    assert "prefix-2" in [task.name for task in language.tasks()]


def test_what_began_before_a_sentence_was_begun_again_is_no_part_of_it() -> None:
    """Half of the derivations begin with T, which is too long; V waits as T did, but begins no sentence."""
    rules = "S -> T 'q' [0.5] | 'a' V 'b' [0.5]\nT -> 't' 't' 't' 't' 't' 't' [1]\nV -> 'v' 'v' [1]"
    language = pcfg(parse_grammar(rules), 4)
    keys = sentence_keys(50, torch.Generator().manual_seed(0))
    complete = leftmost_constituents(Derivations(language.tables, keys, 4), 4)
    assert complete[:, 2:].tolist() == [[False, False, True]] * 50


def test_sentences_shorter_than_the_prefix_are_refused() -> None:
    """Whatever the width of the rectangle that contains them: equal to theirs, or larger."""
    text = "S -> A 'z' [1]\nA -> 'x' 'y' [0.5] | 'x' B [0.5]\nB -> 'x' 'y' [1]"
    language = pcfg(parse_grammar(text))  # A, which spans three words, also spans two
    two = encoded(language, [("x", "y")])
    wide = Sentences(torch.nn.functional.pad(two.ids, (0, 3), value=-1), two.lengths)
    for short in (two, wide):
        with pytest.raises(BadInput, match="sentence 1 has no constituent that prefix-3 asks for"):
            prefix_task(language, 3).label(short)
