from collections import Counter

import pytest
import torch
from enumeration import chi_square_passes, enumerate_derivations
from small_grammars import CASES

from isoloss.languages.pcfg import pcfg


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.thorough] if CASES[name][2] > 6 or name == "layered" else [])
        for name in CASES
    ],
)
def test_trees_belong_to_the_sampled_sentences_and_have_their_frequencies(name: str) -> None:
    written, maximum, complete = CASES[name]
    language, enumeration = pcfg(written, maximum), enumerate_derivations(written, complete)
    n, vocabulary = 3000, language.vocabulary
    trees = language.sample_derivations(n, torch.Generator().manual_seed(9))
    drawn = language.sample(n, torch.Generator().manual_seed(9))
    for tree, ids, length in zip(trees, drawn.ids.tolist(), drawn.lengths.tolist(), strict=True):
        assert list(tree.words) == [vocabulary[word] for word in ids[:length]]
    weights = {str(tree): n * weight / enumeration.total for tree, weight in enumeration.trees}
    assert chi_square_passes(Counter(map(str, trees)), weights)


def test_a_long_right_branching_tree_is_built_without_recursion() -> None:
    from small_grammars import grammar

    language = pcfg(grammar("S -> 'a' S [0.999] | 'b' [0.001]"))
    trees = language.sample_derivations(4, torch.Generator().manual_seed(1))
    assert max(len(tree.words) for tree in trees) > 1000
    assert str(trees[0]).count("(") == len(trees[0].words)
