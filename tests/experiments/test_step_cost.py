"""The cost of a step: operations against closed forms and whole steps, memory against real ones."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest
import torch
from transformers import PreTrainedModel
from whole_step import whole_step

from isoloss.experiments.step_cost import step_cost
from isoloss.languages.pcfg import pcfg
from isoloss.languages.random_grammar import laptop_grammar
from isoloss.models.lstm import LSTM
from isoloss.models.transformers import (
    Architecture,
    GPT2Transformer,
    PostLayerNormTransformer,
    PreLayerNormTransformer,
    laptop_shape,
)
from isoloss.objectives.batch import PretrainingObjective
from isoloss.objectives.masked import ManyMasksObjective, MaskedObjective
from isoloss.objectives.next_word import NextWordObjective
from isoloss.pretraining.adversarial import Adversarial
from isoloss.pretraining.descent import SGD, AdamW
from isoloss.pretraining.flatness_regularised import SAM
from isoloss.pretraining.other_optimisers import SOAP, Muon
from isoloss.pretraining.update_rule import UpdateRuleSettings
from llama_transformer import LlamaTransformer
from planned_suite import planned_suite
from thorough_cases import others_thorough

MASKED, NEXT = MaskedObjective(), NextWordObjective()
N, WORDS, LENGTH = 4, 12, 8
TOKENS, VOCABULARY = LENGTH + 1, WORDS + 3
SHAPE = laptop_shape(32)
DEEP = replace(SHAPE, layers=3)
ADAMW = AdamW(warm_up_steps=0)
LANGUAGE = pcfg(laptop_grammar(5))


def a_transformers_layers(inner_matrices: int) -> float:
    """Forward operations of the layers per sentence: four square matrices, the inner ones, and attention."""
    d = SHAPE.width
    weights = SHAPE.layers * (4 * d**2 + inner_matrices * d * SHAPE.inner_width)
    return 2 * weights * TOKENS + SHAPE.layers * 4 * TOKENS**2 * d


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("model", "rule", "objective", "micro_batch"),
    [
        pytest.param(PreLayerNormTransformer(DEEP), ADAMW, MASKED, 2, marks=pytest.mark.thorough),
        pytest.param(
            *(PreLayerNormTransformer(DEEP), SGD(momentum=0.9), ManyMasksObjective(copies=2), None),
            marks=pytest.mark.slow,
        ),
        pytest.param(PostLayerNormTransformer(DEEP), Muon(), MASKED, None, marks=pytest.mark.slow),
        pytest.param(
            *(GPT2Transformer(DEEP), AdamW(3e-4, weight_decay=0.0), NEXT, None), marks=pytest.mark.slow
        ),
        (LSTM(16, 3), SGD(), MASKED, None),
    ],
)
def test_a_step_of_few_layers_tells_that_of_all_layers_and_of_any_batch(
    model: Architecture, rule: UpdateRuleSettings, objective: PretrainingObjective, micro_batch: int | None
) -> None:
    every_layer = whole_step(model, rule, objective, 6, WORDS, LENGTH, micro_batch)
    assert step_cost(model, rule, objective, 6, WORDS, LENGTH, micro_batch) == every_layer


@pytest.mark.slow
@pytest.mark.parametrize("scale", ["smoke", "laptop", "gpu", "night", "paper"])
def test_every_planned_step_is_counted_as_a_whole_one(scale: str) -> None:
    steps = {
        (
            *(run.architecture, run.update_rule, run.objective, run.batch_size),
            *(run.language.words, run.language.maximum_length, run.compute.micro_batch),
        )
        for experiment in planned_suite(scale)
        for run in experiment.runs
    }
    assert len(steps) > 20
    for step in steps:
        assert step_cost(*step) == whole_step(*step), step


@pytest.mark.parametrize("attention", others_thorough(["sdpa", "eager"]))
@pytest.mark.parametrize("kind", [PreLayerNormTransformer, PostLayerNormTransformer])
def test_a_masked_transformers_operations_are_the_closed_form(kind: type, attention: str) -> None:
    """Of the last block, all words have keys and values, and the masked one everything, and scores."""
    cost = step_cost(kind(SHAPE, attention=attention), ADAMW, MASKED, N, WORDS, LENGTH)
    d = SHAPE.width
    rest = 4 * d**2 + 4 * d * SHAPE.inner_width + 4 * TOKENS * d
    everywhere = SHAPE.layers * 4 * d**2 + (SHAPE.layers - 1) * rest
    assert cost.operations == 3 * N * (everywhere * TOKENS + rest + 2 * (d**2 + d * VOCABULARY))


@pytest.mark.parametrize(
    ("architecture", "inner_matrices"),
    [pytest.param(GPT2Transformer(SHAPE), 2, marks=pytest.mark.thorough), (LlamaTransformer(SHAPE), 3)],
)
def test_a_causal_models_scores_are_of_every_word(architecture: Architecture, inner_matrices: int) -> None:
    cost = step_cost(architecture, ADAMW, NEXT, N, WORDS, LENGTH)
    scores = 2 * TOKENS * SHAPE.width * VOCABULARY
    assert cost.operations == 3 * N * (a_transformers_layers(inner_matrices) + scores)


def test_an_lstms_operations_are_four_gates_of_two_matrices_in_each_direction() -> None:
    width, layers = 16, 3
    cost = step_cost(LSTM(width, layers), ADAMW, MASKED, N, WORDS, LENGTH)
    gates = 4 * (width // 2) * (width + width // 2)
    assert cost.operations == 3 * N * (2 * TOKENS * layers * 2 * gates + 2 * width * VOCABULARY)


def test_an_lstm_stores_its_gates_and_cells() -> None:
    small, large = (step_cost(LSTM(16, 3), ADAMW, MASKED, n, WORDS, LENGTH) for n in (N, 2 * N))
    counted = large.activation_bytes - small.activation_bytes
    ids = torch.zeros(N, TOKENS, dtype=torch.int64)
    model = LSTM(16, 3).build(WORDS, LENGTH, 0)
    kept = bytes_kept(model, lambda: model(input_ids=ids, attention_mask=torch.ones_like(ids), labels=ids))
    assert 3 * 2 * 5 * 8 * 4 * N * TOKENS < counted < kept


@pytest.mark.thorough
@pytest.mark.parametrize(
    "tokens", [1009, *(pytest.param(n, marks=pytest.mark.thorough) for n in (1013, 1009 * 1013))]
)
def test_a_number_of_tokens_that_a_counted_step_has_too_changes_nothing_else(tokens: int) -> None:
    def operations(words: int) -> float:
        return step_cost(PreLayerNormTransformer(SHAPE), SOAP(), MASKED, N, words, LENGTH).operations

    special = VOCABULARY - WORDS
    less, there, more = (operations(tokens - special + further) for further in (-1, 0, 1))
    assert less < there < more
    assert 2 * there == pytest.approx(less + more, rel=1e-6)


@dataclass(frozen=True)
class OfMyOwn:
    """An architecture unknown to the package."""

    inner: LSTM

    def build(self, words: int, maximum_length: int, seed: int) -> PreTrainedModel:
        return self.inner.build(words, maximum_length, seed)


def test_an_lstm_costs_as_much_under_another_name() -> None:
    lstm = LSTM(width=32, layers=2, dropout=0.0)
    assert step_cost(OfMyOwn(lstm), ADAMW, MASKED, N, WORDS, LENGTH) == step_cost(
        lstm, ADAMW, MASKED, N, WORDS, LENGTH
    )


def bytes_kept(model: torch.nn.Module, forward: Callable[[], object]) -> int:
    """What a real forward pass stores for the backward pass, without the weights."""
    own = {weight.untyped_storage().data_ptr() for weight in model.parameters()}
    kept: dict[int, torch.UntypedStorage] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        result = forward()  # held, so that no two storages have one address
    assert result is not None
    return sum(storage.nbytes() for pointer, storage in kept.items() if pointer not in own)


def test_a_rule_that_chooses_the_gradient_costs_its_optimisers_step() -> None:
    plain = step_cost(PreLayerNormTransformer(SHAPE), ADAMW, MASKED, N, WORDS, LENGTH)
    for rule in (SAM(optimiser=ADAMW), Adversarial((0.1, 0.2), examples=8, optimiser=ADAMW)):
        assert step_cost(PreLayerNormTransformer(SHAPE), rule, MASKED, N, WORDS, LENGTH) == plain


def test_what_is_kept_grows_with_the_batch_and_memory_counts_weights_and_gradients() -> None:
    of_four, of_eight = (
        step_cost(PreLayerNormTransformer(SHAPE), ADAMW, MASKED, n, WORDS, LENGTH) for n in (4, 8)
    )
    assert of_eight.activation_bytes == pytest.approx(2 * of_four.activation_bytes, rel=0.01)
    assert of_eight.state_bytes == of_four.state_bytes
    assert of_four.memory_bytes == 8 * of_four.parameters + of_four.state_bytes + of_four.activation_bytes


def test_what_is_kept_is_what_a_real_step_keeps() -> None:
    """In plain attention, whose matrices are kept, as they are counted."""
    architecture = PreLayerNormTransformer(SHAPE, attention="eager")
    counted = step_cost(architecture, ADAMW, MASKED, N, 8, 8).activation_bytes
    model = architecture.build(8, 8, seed=900).train()
    sentences = LANGUAGE.sample(N, torch.Generator().manual_seed(900))
    batch = MASKED.draw(sentences, torch.Generator().manual_seed(900))
    really = bytes_kept(
        model, lambda: torch.nn.functional.cross_entropy(MASKED.logits(model, batch), batch.targets)
    )
    assert counted == pytest.approx(really, rel=0.02)
