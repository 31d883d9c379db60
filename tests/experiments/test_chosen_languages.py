import pytest
import torch

from isoloss.experiments.chosen_languages import headline_grammar, second_grammar, small_hmm, third_grammar
from isoloss.languages.language import Language
from isoloss.languages.pcfg import PCFG
from isoloss.measurements.entropy import entropies
from isoloss.measurements.room_and_price import SearchRule, measure_room, price

GRAMMARS = {
    "headline": (headline_grammar(), 1.3927),
    "second": (second_grammar(), 1.4432),
    "third": (third_grammar(), 1.3177),
}


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
    ("language", "name"),
    [*((language, "prefix-8") for language, _ in GRAMMARS.values()), (small_hmm(), "state-5")],
)
def test_they_pass_the_rule_that_they_were_searched_by(language: Language, name: str) -> None:
    (task,) = [task for task in language.tasks() if task.name == name]
    rule, priced = SearchRule(), price(language, task)
    assert priced is not None
    assert rule.has_price(priced)
    assert rule.has_room(measure_room(language, task))
