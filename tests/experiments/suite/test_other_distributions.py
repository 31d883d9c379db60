from dataclasses import replace

import polars as pl
import pytest
import torch

from isoloss.errors import BadInput
from isoloss.experiments.languages import small_hmm
from isoloss.experiments.suite.other_distributions import CLAIMS, SHIFTS
from isoloss.languages.constituent_task import constituent_task
from isoloss.languages.pcfg import pcfg
from isoloss.languages.random_grammar import laptop_grammar
from isoloss.languages.sentences import Sentences
from isoloss.measurements.task_sentences import TaskSentences, shifted
from isoloss.objectives.masked import MaskedObjective
from isoloss.progress import silent

EXAMPLES = TaskSentences("prefix-8", 40, 10, 30, seed=900)


def words(sentences: Sentences) -> set[tuple[int, ...]]:
    return set(map(tuple, sentences.ids.tolist()))


@pytest.mark.parametrize("shift", [shift for shift, _ in SHIFTS])
def test_training_is_the_languages_own_and_tests_are_the_shifted_ones(shift) -> None:
    language, objective = pcfg(laptop_grammar(5)), MaskedObjective()
    quantity = replace(EXAMPLES, shift=shift)
    own, other = (each.draw(language, objective, silent) for each in (EXAMPLES, quantity))
    assert torch.equal(other.train.sentences.ids, own.train.sentences.ids)
    assert torch.equal(other.train.labels, own.train.labels)
    test = other.test
    assert not words(test.sentences) & words(other.train.sentences)
    exact = constituent_task(language, "prefix-8").label(test.sentences)
    assert torch.equal(test.labels, exact.labels)


def test_the_shifts_change_the_distributions_as_they_say() -> None:
    """Only skewed roots: the likelihoods stay, so that posteriors differ by the ratio of the priors."""
    language = pcfg(laptop_grammar(5))
    sentences = shifted(language, "skewed roots").sample(400, torch.Generator().manual_seed(900))
    both = (language, shifted(language, "skewed roots"))
    before, after = (constituent_task(each, "prefix-8").label(sentences).posterior for each in both)
    roots = [rule.probability for rule in language.grammar.rules if rule.left == language.grammar.start]
    weighed = before / torch.tensor(roots).double() * torch.tensor([0.8, 0.2]).double()
    assert torch.allclose(after, weighed / weighed.sum(1, keepdim=True), atol=1e-6)
    assert float(after[:, 0].mean()) == pytest.approx(0.8, abs=0.05)
    uniform = shifted(language, "uniform rules").grammar
    of_symbols = {rule.left: rule.probability for rule in uniform.rules if rule.left != uniform.start}
    assert {rule.probability for rule in uniform.rules if rule.left in of_symbols} == {1 / 2, 1 / 6}


def test_what_is_no_grammar_is_refused() -> None:
    quantity = replace(EXAMPLES, shift="uniform rules")
    with pytest.raises(BadInput, match="those of a grammar"):
        quantity.draw(small_hmm(), MaskedObjective(), silent)


def on_shifted(sign: int) -> pl.DataFrame:
    rising = {column: [0.8, 0.8 + sign * 0.01, 0.8 + sign * 0.02] for _, column in SHIFTS}
    loss = [1.4, 1.401, 1.4005] if sign > 0 else [1.5, 1.45, 1.4]
    return pl.DataFrame({"seed": [1] * 3, "trace": [40.0, 30.0, 20.0], "loss": loss, **rising})


def test_every_claim_can_be_met_and_can_fail() -> None:
    for claim in CLAIMS:
        assert claim.claimed.low < claim.statistic([on_shifted(1)]) < claim.claimed.high, claim.name
        assert not claim.claimed.low < claim.statistic([on_shifted(-1)]) < claim.claimed.high, claim.name
