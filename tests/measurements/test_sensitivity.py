"""Predictions from the traces against the dense Fisher information, and the parts that they are of."""

import itertools

import pytest
import torch

from isoloss.curvature.derivatives import trainable_parameters
from isoloss.curvature.fisher_diagonal import fisher_diagonal
from isoloss.curvature.predicted_kl import measured_kl
from isoloss.curvature.weight_changes import Noise, Rounding, differences, mean_squares
from isoloss.errors import BadInput
from isoloss.measurements.sensitivity import PARTS, WHOLE, Sensitivity, allocated, kind_of, layer_of
from isoloss.objectives.pretrained import PretrainedCausal, PretrainedMasked, masked_batch, next_token_batch
from thorough_cases import others_thorough
from tiny_language_models import CAUSAL, MASKED, PAD, tiny_language_model

SENTENCES = [[1, 5, 3, 4, 1], [1, 9, 6], [1, 4, 4, 10, 2, 1], [1, 7, 8]] * 8


def engine_of(name, sentences=SENTENCES, **asked):
    if name in CAUSAL:
        batch, objective = next_token_batch(sentences, PAD), PretrainedCausal()
    else:
        batch = masked_batch(sentences, [[1, len(each) - 2] for each in sentences], mask=2, pad=PAD)
        objective = PretrainedMasked()
    return Sensitivity.of(tiny_language_model(name), objective, [batch], **asked)


@pytest.mark.parametrize("name", others_thorough(["bert", "gpt2"]))
def test_from_the_trace_it_is_the_exact_diagonal_times_the_squared_errors(name):
    engine = engine_of(name)
    exact = fisher_diagonal(engine.model, engine.objective, engine.batches[0])
    f_ii = {tensor: float(blocks.mean(dim=0).sum()) for tensor, blocks in exact.blocks.items()}
    for change in (Noise(0.01), Rounding(5)):
        squares, found = mean_squares(engine.model, change), engine.from_trace(change, str)
        for part, each in found.items():
            named = f_ii if part == WHOLE else [part]
            expected = 0.5 * sum(squares[tensor] * f_ii[tensor] for tensor in named)
            assert abs(each.from_trace.value - expected) < 5 * each.from_trace.standard_error, part
        parts = sum(each.from_trace.value for part, each in found.items() if part != WHOLE)
        assert parts == pytest.approx(found[WHOLE].from_trace.value)
        assert found[WHOLE].from_trace.standard_error < 0.2 * parts


@pytest.mark.parametrize(
    ("name", "divisions"),
    others_thorough([("roberta", ("layer",)), ("roberta", ("kind",)), ("opt", ("tensor",))]),
)
def test_each_part_is_changed_alone(name, divisions):
    engine = engine_of(name, SENTENCES[:4], check=True)
    change = Rounding(4, group=4)
    for called in divisions:
        part_of = PARTS[called]
        found = {each.part: each for each in engine.under([change], part_of)}
        for part, each in found.items():
            named = [key for key in engine.traces if part == WHOLE or part_of(key) == part]
            moved = differences(engine.model, change, frozenset(named))
            expected = measured_kl(engine.model, engine.objective, engine.batches, moved)
            assert each.measured is not None, called
            assert each.measured.value == pytest.approx(float(expected.mean()))
            assert each.numbers == sum(difference.numel() for difference in moved.values())
            assert each.quadratic is not None
            assert each.best is each.quadratic


def test_without_the_errors_only_the_trace_predicts():
    engine = engine_of("bert", SENTENCES[:4], of_errors=False)
    (each, *_) = engine.under([Rounding(4)], layer_of)
    assert (each.quadratic, each.linearised, each.measured) == (None, None, None)
    assert each.best is each.from_trace
    assert [record.quantity for record in each.records("m", 0, {})] == ["kl_from_trace"]


@pytest.mark.thorough
def test_allocated_bits_are_the_best_of_all_for_the_sum_of_parts():
    engine = engine_of("gpt2", SENTENCES[:4], check=True)
    roundings = [Rounding(bits) for bits in (8, 4, 3)]
    found = engine.under(roundings, layer_of)
    best = allocated(engine, found, roundings, layer_of, 4.5)
    parts = {each.part: each.numbers for each in found if each.part != WHOLE}
    cost = {(each.part, each.change): each.best.value for each in found}
    sums = [
        sum(cost[part, f"{bits} bits"] for part, bits in zip(parts, chosen, strict=True))
        for chosen in itertools.product((8, 4, 3), repeat=len(parts))
        if sum(size * bits for size, bits in zip(parts.values(), chosen, strict=True))
        <= 4.5 * sum(parts.values())
    ]
    assert best.allocation.predicted == pytest.approx(min(sums))
    assert all(best.allocation.bits[layer_of(name)] == bits for name, bits in best.rounding.bits.items())
    assert best.whole.measured is not None
    assert best.whole.numbers == sum(parts.values())


def test_what_rounding_leaves_as_it_is_gets_the_fewest_bits_and_counts():
    model = tiny_language_model("gpt2")
    matrices = {name: each for name, each in trainable_parameters(model).items() if each.ndim > 1}
    with torch.no_grad():
        for name, weight in matrices.items():
            if layer_of(name) == "layer 1":
                weight.copy_(weight.sign() * 0.5)  # exact in any number of bits
    engine = Sensitivity.of(model, PretrainedCausal(), [next_token_batch(SENTENCES[:4], PAD)])
    roundings = [Rounding(bits) for bits in (8, 3)]
    best = allocated(engine, engine.under(roundings, layer_of), roundings, layer_of, 5.0)
    assert best.allocation.bits["layer 1"] == 3
    assert best.rounding.bits.keys() == matrices.keys()
    spent = sum(best.rounding.bits[name] * each.numel() for name, each in matrices.items())
    assert best.allocation.mean_bits == pytest.approx(spent / sum(map(torch.numel, matrices.values())))


def test_bits_of_vectors_alone_are_refused():
    model = tiny_language_model("gpt2")
    for each in model.parameters():
        each.requires_grad_(each.ndim == 1)
    engine = Sensitivity.of(model, PretrainedCausal(), [next_token_batch(SENTENCES[:4], PAD)])
    assert not engine.under([Rounding(4)], layer_of)
    with pytest.raises(BadInput, match="no measured weight is a matrix, and vectors are not rounded"):
        allocated(engine, [], [Rounding(4)], layer_of, 4.0)


def test_a_change_of_nothing_is_refused():
    engine = engine_of("bert", SENTENCES[:4])
    with pytest.raises(BadInput, match="no weight changes"):
        engine.of_whole(Noise(0.0))


def test_names_of_parts_of_every_architecture():
    for name in [*MASKED, *CAUSAL]:
        tensors = trainable_parameters(tiny_language_model(name))
        layers = {layer_of(tensor) for tensor in tensors}
        first = "decoder layer 1" if name == "opt" else "layer 1"
        assert {first, "embeddings"} <= layers, name
        kinds = {kind_of(tensor) for tensor in tensors}
        assert not any(part.isdigit() for kind in kinds for part in kind.split(".")), (name, kinds)
