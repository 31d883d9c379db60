"""How well a fine-tuned pre-trained model predicts the label of a sentence or a text (A.5).

A classifier is put on a copy of its backbone and trained; the best epoch is chosen on validation examples.
"""

import copy
import math
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from transformers import AutoModelForSequenceClassification, PreTrainedModel
from transformers.modeling_outputs import SequenceClassifierOutput

from isoloss.errors import BadInput, IsolossError
from isoloss.measurements.labelled_inputs import InputSplits, LabelledInputs, TextInputs, check_splits
from isoloss.measurements.linear_probe import Accuracy
from isoloss.models.model_files import quiet
from isoloss.objectives.evaluation import FORWARD_MEMORY_BYTES, evaluation_mode, rows_at_once
from isoloss.objectives.tokens import vectors_of_words
from isoloss.pretraining.descent import parameters_by_decay
from isoloss.progress import Progress, part_of, silent
from isoloss.results.store import ONLY_WHEN_CHANGED
from isoloss.seeds import caller_randomness_kept, derived_seed, seed_dropout

TASK = "fine-tuning"


class WordsClassifier(nn.Module):
    """A copy of a language model's backbone, in float32, under a linear head on the vectors of up to `words`.

    The head is drawn from `seed` as `transformers` draws one: N(0, 0.02²), biases zero.
    """

    def __init__(self, model: PreTrainedModel, words: int, classes: int, seed: int) -> None:
        super().__init__()
        self.base_model = copy.deepcopy(model.base_model).float()
        self.head = nn.Linear(words * model.config.hidden_size, classes)
        drawn = torch.Generator().manual_seed(seed)
        nn.init.normal_(self.head.weight, std=0.02, generator=drawn)
        nn.init.zeros_(self.head.bias)
        self.head.to(model.device)

    @property
    def device(self) -> torch.device:
        """That of the weights."""
        return self.head.weight.device

    def forward(
        self, input_ids: Int[Tensor, "n S"], attention_mask: Bool[Tensor, "n S"] | None = None
    ) -> SequenceClassifierOutput:
        """Scores of the classes, `logits` [n, k]; token 0 of each row is [CLS]."""
        vectors = vectors_of_words(self.base_model, input_ids, attention_mask)
        missing = self.head.in_features - vectors.shape[1]
        return SequenceClassifierOutput(logits=self.head(nn.functional.pad(vectors, (0, missing))))


Classifier: TypeAlias = PreTrainedModel | WordsClassifier


def classifier_of(
    model: PreTrainedModel, classes: tuple[str, ...], seed: int, padding: int
) -> PreTrainedModel:
    """A copy of a language model's backbone under `transformers`' classification head, in float32.

    A masked model's head reads the vector of the first token, [CLS] (for BERT: through a pooler with tanh and
    dropout); a causal model's that of the last token that is not `padding`, the only one that has seen the
    whole text. Raises BadInput for a model type for which `transformers` has no classifier.

    >>> from isoloss.models.transformers import GPT2Transformer, laptop_shape
    >>> model = GPT2Transformer(laptop_shape(16)).build(12, 8, seed=0)
    >>> classifier = classifier_of(model, ("noun", "verb"), seed=0, padding=0)
    >>> classifier(input_ids=torch.ones(3, 9).long()).logits.shape
    torch.Size([3, 2])
    """
    config = copy.deepcopy(model.config)
    config.id2label = dict(enumerate(classes))
    config.label2id = {name: number for number, name in enumerate(classes)}
    config.problem_type, config.use_cache = "single_label_classification", False
    try:
        with quiet(), torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)
            classifier = AutoModelForSequenceClassification.from_config(config, dtype=torch.float32)
    except ValueError as error:
        raise BadInput(
            f"{type(model).__name__} has no classifier in transformers, so it cannot be fine-tuned; leave "
            "fine-tuning out and keep the linear probe"
        ) from error
    # Told once it is made: it keeps what is called padding until then from gradients.
    classifier.config.pad_token_id = classifier.config.get_text_config().pad_token_id = padding
    # A language model lacks the pooler through which some classifiers read [CLS].
    found = classifier.base_model.load_state_dict(model.base_model.state_dict(), strict=False)
    missing = [key for key in found.missing_keys if "pooler." not in key]
    if missing or found.unexpected_keys:
        differing = min([*missing, *found.unexpected_keys])
        raise BadInput(
            f"the classifier of {type(model).__name__} has another backbone ({differing} differs), so it "
            "cannot be fine-tuned; leave fine-tuning out and keep the linear probe"
        )
    return classifier.to(model.device)


@dataclass(frozen=True)
class FineTuningSettings:
    """The paper's settings: AdamW at 1e-4, 10 epochs, 200 warm-up steps, 5 seeds (A.5).

    Unspecified settings are those of Devlin et al. 2019, whose protocol the paper follows: after the warm-up
    the learning rate decays linearly to 0 at the last step, minibatches have 32 examples, weight decay of
    0.01 applies to matrices only, and gradients are clipped to norm 1. Dropout is the model's own.

    With `every_word` the head is linear on the vectors of all words of a language's sentence, as a linear
    probe is, instead of on [CLS]'s, which pre-training on masked words leaves untrained.
    """

    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    epochs: int = 10
    learning_rate: float = 1e-4
    warm_up_steps: int = 200
    batch_size: int = 32
    weight_decay: float = 0.01
    maximum_norm: float = 1.0
    every_word: bool = field(default=False, metadata=ONLY_WHEN_CHANGED)

    def __post_init__(self) -> None:
        if len(set(self.seeds)) != len(self.seeds) or len(self.seeds) < 2:
            raise BadInput(
                f"fine-tuning needs at least two different seeds for its deviation, not {self.seeds}"
            )
        if min(self.epochs, self.batch_size) < 1 or self.warm_up_steps < 0:
            raise BadInput("fine-tuning's epochs and batch_size must be at least 1, its warm_up_steps 0")
        if not (0 < self.learning_rate < math.inf and 0 <= self.weight_decay < math.inf):
            raise BadInput(
                f"the learning rate must be a positive number and weight decay at least 0, not "
                f"{self.learning_rate} and {self.weight_decay}"
            )
        if not self.maximum_norm > 0:
            raise BadInput(f"the maximum norm of a gradient must be above 0, not {self.maximum_norm}")

    def steps(self, examples: int) -> int:
        """How many updates a seed makes. Raises BadInput where that is less than the warm-up."""
        steps = self.epochs * -(-examples // self.batch_size)
        if steps <= self.warm_up_steps:
            raise BadInput(
                f"{self.epochs} epochs of {examples} examples are {steps} steps, no more than the warm-up's "
                f"{self.warm_up_steps}; shorten it, or train on more examples"
            )
        return steps

    def rate(self, step: int, steps: int) -> float:
        """The learning rate of update `step`, from 1: rising over the warm-up, then falling to 0.

        >>> settings = FineTuningSettings(learning_rate=1.0, warm_up_steps=2)
        >>> [settings.rate(step, 6) for step in range(1, 7)]
        [0.5, 1.0, 0.75, 0.5, 0.25, 0.0]
        """
        if step <= self.warm_up_steps:
            return self.learning_rate * step / self.warm_up_steps
        return self.learning_rate * (steps - step) / (steps - self.warm_up_steps)


@dataclass(frozen=True)
class FineTuned:
    """The result of one seed: accuracies on validation examples by epoch, and the first best epoch, from 1.

    `best` and `last` say of each test example whether the model of that epoch, and of the last, is right.
    """

    validation: list[float]
    best_epoch: int
    best: Bool[Tensor, " n"]
    last: Bool[Tensor, " n"]


def fine_tune_seed(
    model: Classifier,
    splits: InputSplits,
    settings: FineTuningSettings,
    seed: int,
    progress: Progress = silent,
) -> FineTuned:
    """Train `model`, a sentence classifier, on the training split; the test split is used once, at the end.

    The order of examples and dropout follow from `seed` alone; the global generators are used. Memory: the
    model five times, for gradients, the optimiser's two averages and the best epoch's weights, with which
    `model` ends. Raises IsolossError when the loss is no longer a number.
    """
    n, device = len(splits.train), model.device
    steps = settings.steps(n)
    optimiser = torch.optim.AdamW(parameters_by_decay(model, settings.weight_decay), fused=True)
    generator = torch.Generator().manual_seed(derived_seed(seed, "fine-tuning order"))
    validation: list[float] = []
    weights: dict[str, Tensor] = {}
    step = 0
    for epoch in range(1, settings.epochs + 1):
        model.train()
        losses = []
        for rows in torch.split(torch.randperm(n, generator=generator), settings.batch_size):
            step += 1
            seed_dropout(seed, step, device)
            for group in optimiser.param_groups:
                group["lr"] = settings.rate(step, steps)
            losses.append(_update(model, optimiser, splits.train[rows], settings.maximum_norm))
        if not math.isfinite(float(torch.stack(losses).sum())):
            raise IsolossError(
                f"the loss is no longer a number in epoch {epoch} of fine-tuning with seed {seed}; lower the "
                "learning rate or lengthen the warm-up"
            )
        validation.append(float(_right(model, splits.validation, settings.batch_size).double().mean()))
        if validation[-1] > max(validation[:-1], default=-1.0):
            weights = copy.deepcopy(model.state_dict())
        progress(TASK, epoch, settings.epochs, f"seed {seed}, validation accuracy {validation[-1]:.4f}")
    last = _right(model, splits.test, settings.batch_size)
    model.load_state_dict(weights)
    best_epoch = validation.index(max(validation)) + 1
    best = _right(model, splits.test, settings.batch_size)
    return FineTuned(validation, best_epoch, best, last)


def _update(
    model: Classifier, optimiser: torch.optim.Optimizer, examples: LabelledInputs, maximum_norm: float
) -> Float[Tensor, ""]:
    loss = cross_entropy(_scores(model, examples), examples.labels.to(model.device))
    optimiser.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    torch.nn.utils.clip_grad_norm_(model.parameters(), maximum_norm)
    optimiser.step()
    return loss.detach()


def _scores(model: Classifier, examples: LabelledInputs) -> Float[Tensor, "n k"]:
    scores: Any = model(**examples.arguments(model.device)).logits
    return torch.as_tensor(scores)


def _right(model: Classifier, examples: LabelledInputs, minibatch: int) -> Bool[Tensor, " n"]:
    """Whether the model's most likely class is the label; dropout off, within the usual memory."""
    # What fits with gradients fits without; large vocabularies, which are not scored, matter here.
    at_once = max(minibatch, rows_at_once(model, examples.tokens, FORWARD_MEMORY_BYTES))
    predicted = []
    with evaluation_mode(model), torch.inference_mode():
        for start in range(0, len(examples), at_once):
            predicted.append(_scores(model, examples[start : start + at_once]).argmax(dim=1).cpu())
    right: Tensor = torch.cat(predicted) == examples.labels
    return right


def fine_tune(
    model: PreTrainedModel,
    inputs: InputSplits,
    settings: FineTuningSettings | None = None,
    progress: Progress = silent,
) -> tuple[Accuracy, Accuracy]:
    """Fine-tune a copy of the language model once per seed; the best epochs' and the last one's accuracy.

    The test examples are used once per seed, with the model of the epoch that is best on the validation
    examples (the first in case of ties), and the last one's. `model` is not changed.
    Raises BadInput before work starts if `check_splits`, `classifier_of` or the settings refuse, and
    IsolossError if a loss is not finite.
    """
    settings = settings or FineTuningSettings()
    found = []
    for done, seed in enumerate(settings.seeds):
        report = part_of(progress, done, len(settings.seeds))
        found.append(fine_tune_once(model, inputs, settings, seed, report))
        progress(TASK, done + 1, len(settings.seeds))
    best = torch.stack([each.best for each in found]).double()
    last = torch.stack([each.last for each in found]).double()
    return Accuracy.of("fine_tuning_best", best), Accuracy.of("fine_tuning_last", last)


def fine_tune_once(
    model: PreTrainedModel,
    inputs: InputSplits,
    settings: FineTuningSettings,
    seed: int,
    progress: Progress = silent,
) -> FineTuned:
    """One seed of `fine_tune`; memory is `fine_tune_seed`'s, beside the model itself."""
    check_splits(inputs)
    head_seed = derived_seed(seed, "fine-tuning head")
    with caller_randomness_kept(model.device):
        classifier: Classifier
        if settings.every_word:
            classifier = WordsClassifier(model, _most_words(inputs), len(inputs.classes), head_seed)
        else:
            classifier = classifier_of(model, inputs.classes, head_seed, inputs.padding)
        return fine_tune_seed(classifier, inputs, settings, seed, progress)


def _most_words(inputs: InputSplits) -> int:
    parts = (inputs.train, inputs.validation, inputs.test)
    if any(isinstance(part, TextInputs) for part in parts):
        raise BadInput("texts have no fixed number of words for a head to read; fine-tune on [CLS]'s vector")
    return max(part.tokens for part in parts) - 1
