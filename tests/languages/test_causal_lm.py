import itertools

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from isoloss.errors import BadInput
from isoloss.languages.sentences import Sentences
from isoloss.models.causal_language import RestrictedCausalModel
from thorough_cases import others_thorough
from tiny_causal_models import (
    CHOSEN,
    MODELS,
    joint_log_probabilities,
    masked_distributions_by_full_passes,
    tiny_causal_model,
    tiny_language,
)

EXACT = {"rtol": 0, "atol": 1e-10}


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def every_sentence(length):
    ids = torch.tensor(list(itertools.product(range(len(CHOSEN)), repeat=length)))
    return Sentences(ids, torch.full((len(ids),), length))


@pytest.mark.parametrize("kind", others_thorough(MODELS, quick=2))
def test_masked_distributions_equal_full_forward_passes(kind):
    language, model = tiny_language(kind), tiny_causal_model(kind)
    sentences = language.sample(4, generator())
    distributions = language.masked_log_probabilities(sentences)
    expected = torch.stack(
        [masked_distributions_by_full_passes(model, sentence) for sentence in sentences.ids]
    )
    assert distributions.shape == (4, 6, 7)
    torch.testing.assert_close(distributions, expected, **EXACT)
    # The distributions are informative: they are not flat, and the words after a position matter.
    assert float(distributions.exp().amax(2).max()) > 0.5
    before = language.next_log_probabilities(sentences)[:, :6, :7]
    assert float((distributions - before)[:, :-1].abs().amax()) > 0.5


@pytest.mark.parametrize("kind", others_thorough(MODELS, quick=2))
def test_masked_distributions_in_single_precision(kind):
    language, model = tiny_language(kind, dtype=torch.float32), tiny_causal_model(kind, torch.float32)
    sentences = language.sample(4, generator())
    expected = torch.stack(
        [masked_distributions_by_full_passes(model, sentence) for sentence in sentences.ids]
    )
    torch.testing.assert_close(language.masked_log_probabilities(sentences), expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("kind", others_thorough(MODELS, quick=2))
def test_next_word_distributions_are_the_models_restricted_and_renormalised(kind):
    language, model = tiny_language(kind, length=4), tiny_causal_model(kind)
    sentences = language.sample(5, generator(1))
    distributions = language.next_log_probabilities(sentences)
    torch.testing.assert_close(distributions.logsumexp(2), torch.zeros(5, 5, dtype=torch.float64), **EXACT)
    assert distributions[:, :4, -1].isneginf().all()
    assert torch.equal(distributions[:, 4, -1], torch.zeros(5, dtype=torch.float64))
    # The sum of a prefix's completions is the oracle's own joint distribution.
    ids = sentences.ids[:1]
    for known in range(4):
        completions = every_sentence(4).ids
        same = (completions[:, :known] == ids[:, :known]).all(1)
        joint = joint_log_probabilities(model, completions[same]).exp()
        totals = torch.zeros(7, dtype=torch.float64).index_add(0, completions[same][:, known], joint)
        torch.testing.assert_close(distributions[0, known, :7].exp(), totals / totals.sum(), **EXACT)


@pytest.mark.parametrize("kind", MODELS)
def test_probabilities_of_all_sentences_sum_to_one_and_give_the_masked_distributions(kind):
    language = tiny_language(kind, length=3)
    everything = every_sentence(3)
    log_probability = language.log_probability(everything)
    assert float(log_probability.logsumexp(0)) == pytest.approx(0, abs=1e-12)
    torch.testing.assert_close(
        log_probability, joint_log_probabilities(tiny_causal_model(kind), everything.ids), **EXACT
    )
    table = log_probability.view(7, 7, 7)
    some = everything[torch.tensor([0, 100, 342])]
    for sentence, distributions in zip(
        some.ids.tolist(), language.masked_log_probabilities(some), strict=True
    ):
        a, b, c = sentence
        expected = torch.stack([table[:, b, c], table[a, :, c], table[a, b, :]]).log_softmax(1)
        torch.testing.assert_close(distributions, expected, **EXACT)


@pytest.mark.thorough
@pytest.mark.parametrize(
    "kind", ["gpt2", *(pytest.param(kind, marks=pytest.mark.thorough) for kind in MODELS if kind != "gpt2")]
)
def test_results_do_not_depend_on_the_memory(kind):
    roomy, tight = tiny_language(kind), tiny_language(kind, memory_bytes=1)
    assert torch.equal(roomy.sample(9, generator()).ids, tight.sample(9, generator()).ids)
    sentences = roomy.sample(3, generator())
    torch.testing.assert_close(
        roomy.masked_log_probabilities(sentences), tight.masked_log_probabilities(sentences), **EXACT
    )
    torch.testing.assert_close(
        roomy.next_log_probabilities(sentences), tight.next_log_probabilities(sentences), **EXACT
    )
    torch.testing.assert_close(roomy.log_probability(sentences), tight.log_probability(sentences), **EXACT)


def test_sentences_do_not_depend_on_how_calls_are_split_in_single_precision():
    language = tiny_language("opt", dtype=torch.float32)
    whole, split = generator(3), generator(3)
    together = language.sample(50, whole).ids
    apart = torch.cat([language.sample(n, split).ids for n in (1, 30, 19)])
    assert torch.equal(together, apart)
    assert torch.equal(language.sample(2, whole).ids, language.sample(2, split).ids)
    assert not torch.equal(language.sample(50, generator(4)).ids, together)


def test_distributions_at_sampled_positions_are_those_of_all_positions():
    language = tiny_language("opt")
    sentences = language.sample(3, generator())
    everywhere = language.masked_log_probabilities(sentences)
    rows, positions = torch.tensor([2, 0, 2, 0]), torch.tensor([5, 3, 0, 3])
    some = language.masked_log_probabilities_at(sentences, rows, positions)
    torch.testing.assert_close(some, everywhere[rows, positions], **EXACT)


def test_the_cost_is_told_before_anything_is_computed():
    language = tiny_language("gpt2")
    sentences = language.sample(2, generator())
    rows, positions = torch.tensor([0, 1, 1]), torch.tensor([0, 2, 5])
    told = []
    language.masked_log_probabilities_at(sentences, rows, positions, lambda *report: told.append(report))
    cost = language.distribution_cost(positions)
    # 7 substitutes, each with those of 6 words from the masked one up to the last but one.
    assert cost.tokens == 7 * (5 + 3 + 0)
    # After bos, the words before the masked one are a past that all substitutes share.
    passes = ((1, 5), (3, 3), (6, 0))
    assert cost.operations == pytest.approx(7 * sum(language.model.operations(*each) for each in passes))
    assert told[0] == ("exact distributions", 0.0, cost.operations, f"{cost}")
    assert told[-1][1:3] == (pytest.approx(cost.operations), cost.operations)


@pytest.mark.parametrize("rows", [7, 2])
def test_the_time_told_is_that_of_as_many_passes_as_there_are_to_make(monkeypatch, rows):
    """A pass is said to take a second: all seven substitutes at the middle take one pass, or seven halves."""
    roomy = tiny_language("gpt2")
    tight = tiny_language("gpt2", memory_bytes=rows * roomy.model.pass_bytes(4, 2))
    clock = iter([10.0, 11.0])
    monkeypatch.setattr("isoloss.languages.causal_lm.time.perf_counter", lambda: next(clock))
    cost = tight.distribution_cost(torch.tensor([3]))
    assert tight.seconds(cost) == pytest.approx(7 / rows)


@pytest.mark.parametrize("kind", MODELS)
def test_operations_count_the_matrix_products_of_a_pass(kind):
    """Against torch's own counter."""
    model = RestrictedCausalModel(tiny_causal_model(kind, attention="eager"), torch.tensor(CHOSEN))
    with FlopCounterMode(display=False) as counter:
        model(torch.full((3, 10), 5))
    # Plain attention is over all 10 x 10 pairs, of which a causal model needs 55; 2 layers of width 16.
    a_pair = 4 * 2 * 16
    expected = counter.get_total_flops() / 3 - a_pair * (100 - 55)
    assert model.operations(0, 10) == pytest.approx(expected)
    assert model.operations(4, 10) == pytest.approx(expected + a_pair * 40)


def test_sentences_of_other_lengths():
    language = tiny_language("gpt2", length=4)
    sentences = Sentences.from_lists([[0, 1], [2, 3, 4, 5]])
    distributions = language.next_log_probabilities(sentences)
    assert distributions[0, 3:].isneginf().all()
    torch.testing.assert_close(
        distributions[0, :3].logsumexp(1), torch.zeros(3, dtype=torch.float64), **EXACT
    )
    wider = Sentences(torch.nn.functional.pad(sentences.ids, (0, 2), value=-1), sentences.lengths)
    torch.testing.assert_close(language.next_log_probabilities(wider)[:, :5], distributions, **EXACT)
    assert language.next_log_probabilities(wider)[:, 5:].isneginf().all()
    probabilities = language.log_probability(wider)
    assert probabilities[0].isneginf()
    assert probabilities[1].isfinite()
    with pytest.raises(BadInput, match="sentence 1 has 2 words, the language's have 4"):
        language.masked_log_probabilities(sentences)
    with pytest.raises(BadInput, match="sentence 1 has 5 words, but those of the language have 4"):
        language.next_log_probabilities(Sentences.from_lists([[0] * 5]))


def test_bad_input_is_refused():
    language = tiny_language("gpt2", length=3)
    sentence = Sentences.from_lists([[0, 1, 2]])
    with pytest.raises(BadInput, match="positions count from 0 to 2, not 1 to 3"):
        language.masked_log_probabilities_at(sentence, torch.tensor([0, 0]), torch.tensor([1, 3]))
    with pytest.raises(BadInput, match="sentences of 0 words"):
        tiny_language("gpt2", length=0)


def test_its_name_follows_model_length_and_precision():
    language = tiny_language("gpt2")
    assert language.digest == tiny_language("gpt2").digest
    others = [
        tiny_language("gpt2", length=5),
        tiny_language("gpt2", dtype=torch.float32),
        tiny_language("opt"),
    ]
    assert len({language.digest, *(other.digest for other in others)}) == 4
