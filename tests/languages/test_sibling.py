import pytest
import torch

from isoloss.errors import BadInput
from isoloss.experiments.chosen_languages import decided_grammar, small_hmm
from isoloss.languages.dyck import dyck
from isoloss.languages.grammar import Symbol
from isoloss.languages.sibling import sibling


def test_a_grammar_and_its_sibling_differ_below_the_roots_alone() -> None:
    first = decided_grammar()
    second = sibling(first, seed=1)
    changed = {a.left for a, b in zip(first.grammar.rules, second.grammar.rules, strict=True) if a != b}
    assert changed
    assert changed <= {Symbol(f"R{n}") for n in range(1, 4)}
    assert second.digest == sibling(first, seed=1).digest != first.digest
    assert second.vocabulary == first.vocabulary


def test_an_hmm_and_its_sibling_share_emissions() -> None:
    first = small_hmm()
    second = sibling(first, seed=1)
    assert torch.equal(second.emission, first.emission)
    assert not torch.equal(second.transition, first.transition)
    assert torch.equal(second.transition.flatten().sort().values, first.transition.flatten().sort().values)


def test_a_language_without_levels_is_refused() -> None:
    with pytest.raises(BadInput, match="no levels that a second language could share"):
        sibling(dyck(8), seed=1)
