from collections.abc import Callable
from functools import cache

import pytest
import torch
from scipy.optimize import brentq

from isoloss.experiments import languages
from isoloss.experiments.languages import (
    decided_grammar,
    grammar_with,
    headline_grammar,
    hmm_with,
    paper_hmm,
    paper_pcfg,
    second_grammar,
    small_hmm,
    third_grammar,
)
from isoloss.experiments.scale import scale_named
from isoloss.languages.language import Language
from isoloss.languages.paper_grammar import mean_length, paper_sized_grammar
from isoloss.languages.pcfg import PCFG, named_task
from isoloss.measurements.entropy import ExactDistributions, entropies, masked_entropy
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


@pytest.mark.thorough
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
    assert rule.cheapest <= priced.value <= rule.dearest
    assert measure_decision(task).largest.value >= rule.least_decided
    room = measure_room(language, task)
    assert room.room.value >= rule.least_room
    assert room.chance.value <= rule.most_chance


FRESH_SEED = 77


@cache
def language() -> PCFG:
    return paper_pcfg()


def test_the_grammar_has_the_papers_sizes_and_mean_length() -> None:
    assert len(language().vocabulary) == 200
    assert len(language().grammar.symbols) == 51  # the start and the paper's 50
    assert language().maximum_length == 32
    assert mean_length(language().grammar) == pytest.approx(17, rel=0.01)
    lengths = language().sample(2000, torch.Generator().manual_seed(0)).lengths
    assert len(lengths.unique()) > 20


@pytest.mark.thorough
def test_the_grammar_has_the_papers_entropy() -> None:
    """Four standard errors of this sample and 1 %; the slow test below leaves the 1 % alone."""
    entropy = masked_entropy(language(), 200, FRESH_SEED)
    assert abs(entropy.value - 3.196) < 0.01 * 3.196 + 4 * entropy.standard_error


def test_the_hidden_markov_model_has_the_papers_sizes_and_entropy() -> None:
    model = paper_hmm()
    assert (len(model.vocabulary), len(model.initial), model.maximum_length) == (200, 100, 16)
    blocks = {tuple(row.nonzero()[:, 0].tolist()) for row in model.transition}
    assert len(blocks) == 4
    assert masked_entropy(model, 1000, FRESH_SEED).value == pytest.approx(3.758, rel=0.01)


@pytest.mark.thorough
def test_the_tasks_of_the_paper_are_there() -> None:
    """A of the whole sentence, B and C of its first 16 and 8 words if those are spanned by one symbol."""
    classes = {}
    for name in ("root", "prefix-16", "prefix-8", "prefix-16-likelihood"):
        task = named_task(language(), name)
        drawn = task.sample(20, torch.Generator().manual_seed(0))
        classes[name] = len(task.classes)
        assert (drawn.sentences.lengths >= (0 if name == "root" else int(name.split("-")[1]))).all()
    assert classes == {"root": 10, "prefix-16": 18, "prefix-8": 26, "prefix-16-likelihood": 18}
    assert {len(named_task(language(), name).classes) for name in scale_named("paper").grammar.tasks} == {50}


def test_the_adversary_aims_just_above_the_entropy() -> None:
    assert scale_named("paper").compared.adversary.loss_window == pytest.approx((3.216, 3.246))


def dial(language_at: Callable[[float], ExactDistributions], wanted: float, low: float, high: float) -> float:
    """Where a language's entropy is `wanted`, on the same draws at every setting."""

    def excess(setting: float) -> float:
        return masked_entropy(language_at(setting), 8000, 31).value - wanted

    return float(brentq(excess, low, high, xtol=1e-3))


@pytest.mark.slow
def test_the_searches_find_the_dials_and_the_entropy_is_met_within_a_hundredth() -> None:
    def excess_length(share: float) -> float:
        grammar = paper_sized_grammar(word_share=share, sharpness=1.0, seed=languages.LANGUAGE_SEED)
        return mean_length(grammar) - languages.GRAMMAR_LENGTH

    share = brentq(excess_length, 0.05, 0.45, xtol=1e-4)
    assert share == pytest.approx(languages.WORD_SHARE, abs=5e-4)
    sharpness = dial(
        lambda each: grammar_with(languages.WORD_SHARE, each), languages.GRAMMAR_ENTROPY, 2.5, 3.0
    )
    assert sharpness == pytest.approx(languages.SHARPNESS, abs=5e-3)
    found = dial(hmm_with, languages.HMM_ENTROPY, 0.15, 0.5)
    assert found == pytest.approx(languages.EMISSION_CONCENTRATION, abs=5e-4)
    entropy = masked_entropy(language(), 10_000, FRESH_SEED)
    assert entropy.standard_error < 0.008
    assert entropy.value == pytest.approx(3.196, rel=0.01)
