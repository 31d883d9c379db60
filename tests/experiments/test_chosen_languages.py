import pytest
import torch

from isoloss.experiments.chosen_languages import (
    decided_grammar,
    headline_grammar,
    second_grammar,
    small_hmm,
    third_grammar,
)
from isoloss.languages.language import Language
from isoloss.languages.pcfg import PCFG
from isoloss.measurements.entropy import entropies
from isoloss.measurements.room_and_price import SearchRule, measure_decision, measure_room, price

GRAMMARS = {
    "headline": (headline_grammar(), 1.3927),
    "second": (second_grammar(), 1.4432),
    "third": (third_grammar(), 1.3177),
    "decided": (decided_grammar(), 1.4622),
}
DECIDED = SearchRule(cheapest=0.002, dearest=0.05, least_room=0.3, least_decided=0.8)


@pytest.mark.parametrize("name", GRAMMARS)
def test_every_word_has_one_preterminal_and_sentences_have_eight(name: str) -> None:
    language = GRAMMARS[name][0]
    above = [rule.left for rule in language.grammar.rules if isinstance(rule.right[0], str)]
    assert len(above) == len(language.vocabulary) == 6
    assert sorted(map(above.count, set(above))) == [2, 2, 2]
    assert language.maximum_length == 8


@pytest.mark.parametrize("name", GRAMMARS)
def test_grammars_are_the_ones_that_were_chosen(name: str) -> None:
    """A seed names a grammar only as long as draws keep their order; entropies were noted beforehand."""
    language, entropy = GRAMMARS[name]
    assert isinstance(language, PCFG)
    sentences = language.sample(4000, torch.Generator().manual_seed(1))
    assert entropies(language.masked_log_probabilities(sentences)).mean().item() == pytest.approx(
        entropy, abs=0.005
    )


def test_the_hmm_has_a_task_for_each_word() -> None:
    language = small_hmm()
    assert [task.name for task in language.tasks()] == [f"state-{k}" for k in range(1, 9)]
    assert (
        language.masked_log_probabilities(language.sample(5, torch.Generator().manual_seed(0)))
        .isfinite()
        .all()
    )


@pytest.mark.parametrize(
    ("language", "name", "rule"),
    [
        (headline_grammar(), "prefix-8", SearchRule()),
        (second_grammar(), "prefix-8", SearchRule()),
        (third_grammar(), "prefix-8", SearchRule()),
        (decided_grammar(), "prefix-8", DECIDED),
        (small_hmm(), "state-5", SearchRule()),
    ],
)
def test_they_pass_the_rule_that_they_were_searched_by(
    language: Language, name: str, rule: SearchRule
) -> None:
    (task,) = [task for task in language.tasks() if task.name == name]
    priced = price(language, task)
    assert priced is not None
    assert rule.has_price(priced)
    assert rule.is_decided(measure_decision(task))
    assert rule.has_room(measure_room(language, task))
