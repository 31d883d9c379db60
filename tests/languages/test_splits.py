import pytest
import torch
from small_grammars import grammar

from isoloss.errors import BadInput
from isoloss.languages.constituent_task import root_task
from isoloss.languages.pcfg import pcfg
from isoloss.languages.random_grammar import laptop_grammar
from isoloss.languages.task import LabelledSentences, task_splits


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
