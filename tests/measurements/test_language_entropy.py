import math

import pytest
import torch

from isoloss.errors import BadInput
from isoloss.languages.notation import parse_grammar
from isoloss.languages.pcfg import pcfg
from isoloss.languages.sentences import Sentences
from isoloss.measurements.entropy import entropies, language_entropy, usual_sentences
from isoloss.results.record import Record
from tiny_causal_models import tiny_language

GRAMMAR = "S -> A [0.25] | A B [0.75]\nA -> 'a' [0.5] | 'b' [0.5]\nB -> 'c' [0.125] | 'd' [0.875]"


def entropy(*distribution: float) -> float:
    return -math.fsum(p * math.log(p) for p in distribution)


def records(n: int, seed: int) -> dict[str, Record]:
    return {record.quantity: record for record in language_entropy(pcfg(parse_grammar(GRAMMAR)), n, seed)}


def test_the_exact_entropies_lie_within_the_error_bars() -> None:
    coin, second, goes_on = entropy(0.5, 0.5), entropy(0.125, 0.875), entropy(0.25, 0.75)
    exact = {
        "masked_entropy_sentence_averaged": 0.25 * coin + 0.75 * (coin + second) / 2,
        "masked_entropy_token_averaged": (0.25 * coin + 0.75 * (coin + second)) / 1.75,
        # events: the first word; go on (and with what) or end; the end after two words is certain
        "next_word_entropy": (coin + goes_on + 0.75 * second) * (0.25 / 2 + 0.75 / 3),
        "mean_length": 1.75,
    }  # fmt: skip
    measured = records(2000, seed=0)
    assert set(measured) == set(exact)
    for quantity, record in measured.items():
        assert abs(record.value - exact[quantity]) < 4 * record.standard_error
        assert (record.n, record.seed) == (2000, 0)
        assert record.unit == ("words" if quantity == "mean_length" else "nats")
        assert record.standard_error > 0


@pytest.mark.slow
def test_the_error_bars_are_those_of_repeated_draws() -> None:
    runs = [records(200, seed) for seed in range(60)]
    for quantity in runs[0]:
        values = [run[quantity].value for run in runs]
        mean = math.fsum(values) / len(values)
        spread = (math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)) ** 0.5
        claimed = math.fsum(run[quantity].standard_error for run in runs) / len(runs)
        assert 0.7 < claimed / spread < 1.4


def test_the_same_seed_gives_the_same_records_and_progress_is_reported() -> None:
    seen: list[tuple[str, float, float]] = []
    language = pcfg(parse_grammar(GRAMMAR))

    once = language_entropy(language, 300, 1, lambda *told: seen.append(told[:3]))
    assert once == language_entropy(language, 300, 1)
    assert seen == [("entropy", 256, 300), ("entropy", 300, 300)]


@pytest.mark.parametrize("n", [-1, 0, 1])
def test_too_few_sentences_are_refused(n: int) -> None:
    with pytest.raises(BadInput, match="at least 2"):
        language_entropy(pcfg(parse_grammar(GRAMMAR)), n, 0)


def test_costly_distributions_are_taken_at_one_position_a_sentence_and_the_mean_is_unbiased() -> None:
    language = tiny_language("gpt2", length=3)
    everything = Sentences(torch.cartesian_prod(*[torch.arange(7)] * 3), torch.full((7**3,), 3))
    probability = language.log_probability(everything).exp()
    table = probability.view(7, 7, 7)
    per_sentence = torch.zeros_like(table)
    for place in range(3):
        distribution = table / table.sum(place, keepdim=True)
        per_sentence += torch.special.entr(distribution).sum(place, keepdim=True) / 3
    exact = float((table * per_sentence).sum())
    measured = {record.quantity: record for record in language_entropy(language, 100, 3)}
    record = measured["masked_entropy_sentence_averaged"]
    assert abs(record.value - exact) < 4 * record.standard_error
    assert record.settings == {"masked_positions": "one a sentence"}
    assert measured["next_word_entropy"].settings == {}
    assert measured["masked_entropy_token_averaged"].value == pytest.approx(record.value)
    # One position per sentence: its own spread adds to that between sentences.
    between = float((table * (per_sentence - exact) ** 2).sum() / 100) ** 0.5
    assert record.standard_error > 1.1 * between
    following = entropies(language.next_log_probabilities(everything)).sum(1) / 4
    of_next = measured["next_word_entropy"]
    assert abs(of_next.value - float(probability @ following)) < 4 * of_next.standard_error


def test_the_memory_for_distributions_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    language = pcfg(parse_grammar(GRAMMAR))
    roomy = language_entropy(language, 40, 1)
    monkeypatch.setattr("isoloss.measurements.entropy.DISTRIBUTION_BYTES", 1)
    for tight, record in zip(language_entropy(language, 40, 1), roomy, strict=True):
        assert tight.value == pytest.approx(record.value, abs=1e-12)


def test_costly_distributions_are_measured_on_fewer_sentences_where_nobody_says() -> None:
    assert usual_sentences(tiny_language("gpt2")) < usual_sentences(pcfg(parse_grammar(GRAMMAR)))
