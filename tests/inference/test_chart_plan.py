from pathlib import Path

import pytest
import torch

from isoloss.inference.chart_plan import BinaryGrammar, prefix_plan, sentence_plan
from isoloss.languages.pcfg import read_pcfg


@pytest.fixture(scope="module")
def released() -> BinaryGrammar:
    return read_pcfg(Path(__file__).parents[1] / "data" / "liu2023-released.pcfg").form.grammar


def test_a_full_tree_has_only_its_own_spans(released: BinaryGrammar) -> None:
    plan = sentence_plan(released, 16, released.initial > 0)
    assert {length: len(level.starts) for length, level in plan.levels.items()} == {
        1: 16,
        2: 8,
        4: 4,
        8: 2,
        16: 1,
    }
    assert [(c.length, c.left_length) for c in plan.combinations] == [(2, 1), (4, 2), (8, 4), (16, 8)]


def test_a_length_that_no_sentence_has_has_no_top(released: BinaryGrammar) -> None:
    assert 17 not in sentence_plan(released, 17, released.initial > 0).levels


def test_rules_of_a_recursive_grammar_are_shared_by_the_combinations() -> None:
    from isoloss.languages.notation import parse_grammar
    from isoloss.languages.pcfg import pcfg

    grammar = pcfg(parse_grammar("S -> S S [0.4] | 'a' [0.6]"), 30).form.grammar
    plan = sentence_plan(grammar, 30, grammar.initial > 0)
    assert len(plan.combinations) == 29 * 30 // 2
    assert len({id(combination.block) for combination in plan.combinations}) == 1
    assert prefix_plan(grammar, 30).levels.keys() == plan.levels.keys()
    assert torch.equal(plan.levels[3].symbols, torch.tensor([0]))
