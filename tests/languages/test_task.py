from collections import Counter

import pytest
import torch
from enumeration import chi_square_passes
from small_grammars import grammar

from isoloss.errors import BadInput
from isoloss.languages.constituent_task import root_task
from isoloss.languages.pcfg import pcfg
from isoloss.languages.random_grammar import laptop_grammar
from isoloss.languages.sentences import Sentences
from isoloss.languages.task import LabelledSentences, Task, task_splits
from tiny_causal_models import MODELS, joint_log_probabilities, tiny_causal_model, tiny_language


def rows(part: LabelledSentences) -> list[tuple[int, ...]]:
    return [tuple(ids) for ids in part.sentences.ids.tolist()]


def test_splits_are_full_disjoint_and_reproducible() -> None:
    task = pcfg(laptop_grammar(0)).tasks()[1]
    splits = task_splits(task, 3000, 500, 700, seed=4)
    again = task_splits(task, 3000, 500, 700, seed=4)
    parts = (splits.train, splits.validation, splits.test)
    assert [len(part) for part in parts] == [3000, 500, 700]
    sets = [set(rows(part)) for part in parts]
    assert len(set.union(*sets)) == sum(len(part) for part in sets)
    for part, same in zip(parts, (again.train, again.validation, again.test), strict=True):
        assert torch.equal(part.sentences.ids, same.sentences.ids)
        assert torch.equal(part.posterior, same.posterior)
    assert rows(task_splits(task, 3000, 500, 700, seed=5).test) != rows(splits.test)


def test_sentences_keep_their_frequencies_within_a_split() -> None:
    language = pcfg(grammar("S -> A A [1.0]\nA -> 'a' [0.5] | 'b' [0.2] | 'c' [0.1] | 'd' [0.1] | 'e' [0.1]"))
    train = task_splits(root_task(language), 4000, 1000, 1000, seed=0).train
    kept = train.sentences.ids.unique(dim=0)
    from isoloss.languages.sentences import Sentences

    weights = language.log_probability(Sentences(kept, torch.full((len(kept),), 2))).exp()
    for words, weight in zip(kept, (weights / weights.sum()).tolist(), strict=True):
        seen = int((train.sentences.ids == words).all(1).sum())
        assert abs(seen - 4000 * weight) < 4.5 * (4000 * weight) ** 0.5


def test_a_language_too_small_for_disjoint_splits_is_named() -> None:
    task = root_task(pcfg(grammar("S -> 'a' [0.5] | 'b' [0.5]")))
    with pytest.raises(BadInput, match="too few different sentences for disjoint splits of 30, 30 and 30"):
        task_splits(task, 30, 30, 30, seed=0)


@pytest.mark.parametrize("sizes", [(-1, 5, 5), (0, 0, 0)])
def test_sizes_that_make_no_sense_are_refused(sizes: tuple[int, int, int]) -> None:
    with pytest.raises(BadInput, match="make no sense"):
        task_splits(root_task(pcfg(laptop_grammar(0))), *sizes, seed=0)


def test_an_empty_split_is_allowed() -> None:
    splits = task_splits(root_task(pcfg(laptop_grammar(0))), 50, 0, 50, seed=0)
    assert [len(splits.train), len(splits.validation), len(splits.test)] == [50, 0, 50]


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def first_word_distribution(kind):
    """By marginalising the joint distribution of two words."""
    pairs = torch.cartesian_prod(torch.arange(7), torch.arange(7))
    return joint_log_probabilities(tiny_causal_model(kind), pairs).exp().view(7, 7).sum(1)


@pytest.mark.parametrize("kind", MODELS)
def test_the_posterior_is_that_of_full_forward_passes(kind):
    tasks, distribution = tiny_language(kind, length=5).tasks(), first_word_distribution(kind)
    assert [task.name for task in tasks] == ["opening-2", "opening-4"]
    for k, task in zip((2, 4), tasks, strict=True):
        assert isinstance(task, Task)
        assert task.openings == tuple(distribution.argsort(descending=True)[:k].tolist())
        assert task.classes == tuple("abcdefg"[word] for word in task.openings)
        drawn = task.sample(30, generator())
        assert drawn.sentences.lengths.tolist() == [4] * 30
        whole = torch.stack(
            [torch.nn.functional.pad(drawn.sentences.ids, (1, 0), value=o) for o in task.openings], dim=1
        )
        joint = joint_log_probabilities(tiny_causal_model(kind), whole.flatten(0, 1)).view(30, k)
        torch.testing.assert_close(drawn.posterior, joint.softmax(1), rtol=0, atol=1e-10)
        assert torch.equal(drawn.labels, joint.argmax(1))
        assert len(drawn.labels.unique()) > 1


@pytest.mark.thorough
def test_the_first_word_is_drawn_by_its_distribution_among_the_openings_and_the_rest_as_ever():
    language, n = tiny_language("gpt2", length=3), 8_000
    task, distribution = language.tasks()[1], first_word_distribution("gpt2")
    openings = torch.tensor(task.openings)
    drawn = language.sample_opening_with(openings, n, generator(1))
    every = torch.cartesian_prod(openings, torch.arange(7), torch.arange(7))
    joint = joint_log_probabilities(tiny_causal_model("gpt2"), every).exp() / distribution[openings].sum()
    assert float(joint.sum()) == pytest.approx(1)
    expected = dict(zip(map(tuple, every.tolist()), (n * joint).tolist(), strict=True))
    assert chi_square_passes(Counter(map(tuple, drawn.ids.tolist())), expected)
    # The ceiling is how often the label is the word that was drawn.
    labelled = task.label(Sentences(drawn.ids[:, 1:], drawn.lengths - 1))
    named = (openings[labelled.labels] == drawn.ids[:, 0]).double()
    ceiling = labelled.posterior.amax(1)
    assert float(named.mean()) == pytest.approx(float(ceiling.mean()), abs=4 * float(named.std()) / n**0.5)


@pytest.mark.thorough
def test_sentences_do_not_depend_on_how_calls_are_split_or_on_the_memory():
    task = tiny_language("opt", length=5).tasks()[0]
    tight = tiny_language("opt", length=5, memory_bytes=1).tasks()[0]
    together, split = task.sample(40, generator(3)), generator(3)
    parts = [tight.sample(n, split) for n in (1, 20, 0, 19)]
    assert torch.equal(together.sentences.ids, torch.cat([part.sentences.ids for part in parts]))
    torch.testing.assert_close(together.posterior, torch.cat([part.posterior for part in parts]))
    assert not torch.equal(together.sentences.ids, task.sample(40, generator(4)).sentences.ids)


def test_sentences_of_another_length_are_refused():
    task = tiny_language("gpt2", length=4).tasks()[0]
    with pytest.raises(BadInput, match="sentence 2 has 4 words, those of opening-2 have 3"):
        task.label(Sentences.from_lists([[0, 1, 2], [0, 1, 2, 3]]))
    with pytest.raises(BadInput, match="sentence 1, position 2: there is no word number 7"):
        task.label(Sentences.from_lists([[0, 7, 2]]))


def test_languages_too_small_for_a_choice_have_no_such_task():
    assert tiny_language("gpt2", length=1).tasks() == []
