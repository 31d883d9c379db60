import pytest
import torch

from isoloss.errors import BadInput
from isoloss.languages.notation import parse_grammar, write_grammar
from isoloss.languages.paper_grammar import mean_length, paper_sized_grammar
from isoloss.languages.pcfg import pcfg
from isoloss.languages.random_grammar import laptop_grammar


def test_sizes_and_the_symbols_that_emit_words() -> None:
    grammar = paper_sized_grammar(word_share=0.2, sharpness=2.0, seed=3)
    assert (len(grammar.words), len(grammar.symbols)) == (200, 51)  # the start and the paper's 50
    assert parse_grammar(write_grammar(grammar)) == grammar
    lexical = {symbol.name: 0 for symbol in grammar.symbols}
    for rule in grammar.rules:
        lexical[rule.left.name] += isinstance(rule.right[0], str)
    for name, words in lexical.items():
        expected = 80 if name.startswith("L5") else 1 if name.startswith("L") else 0
        assert words == expected, name


def test_probabilities_are_distributions_and_shares_lie_where_they_should() -> None:
    grammar = paper_sized_grammar(word_share=0.2, sharpness=2.0, seed=3)
    for symbol in grammar.symbols:
        own = [rule for rule in grammar.rules if rule.left == symbol]
        assert sum(rule.probability for rule in own) == pytest.approx(1, abs=1e-12)
    shares = [
        rule.probability
        for rule in grammar.rules
        if isinstance(rule.right[0], str) and not rule.left.name.startswith("L5")
    ]
    assert len(shares) == 32
    assert 0 < min(shares) < max(shares) < 0.4
    assert sum(shares) / 32 == pytest.approx(0.2, abs=0.08)


@pytest.mark.thorough
def test_the_mean_length_is_that_of_sentences_drawn() -> None:
    grammar = paper_sized_grammar(word_share=0.2, sharpness=2.0, seed=3)
    lengths = pcfg(grammar).sample(20_000, torch.Generator().manual_seed(0)).lengths.double()
    assert abs(lengths.mean() - mean_length(grammar)) < 4 * lengths.std() / 20_000**0.5
    assert lengths.min() < 5
    assert lengths.max() <= 32
    assert mean_length(laptop_grammar(0)) == pytest.approx(8)


@pytest.mark.thorough
def test_dials_move_length_and_word_distributions_alone() -> None:
    short, long = (paper_sized_grammar(word_share=share, sharpness=1.0, seed=3) for share in (0.3, 0.0))
    assert mean_length(short) < 14 < 32 == pytest.approx(mean_length(long))
    sharp = paper_sized_grammar(word_share=0.3, sharpness=3.0, seed=3)
    assert mean_length(sharp) == pytest.approx(mean_length(short), rel=1e-12)
    largest = [max(rule.probability for rule in g.rules if rule.left.name == "L5_1") for g in (short, sharp)]
    assert largest[0] < largest[1]


@pytest.mark.parametrize(("share", "sharpness"), [(-0.1, 1.0), (0.6, 1.0), (0.2, 0.0), (0.2, float("nan"))])
def test_dials_beyond_their_ends_are_refused(share: float, sharpness: float) -> None:
    with pytest.raises(BadInput, match=r"between 0 and 0\.5|number above 0"):
        paper_sized_grammar(word_share=share, sharpness=sharpness, seed=0)
