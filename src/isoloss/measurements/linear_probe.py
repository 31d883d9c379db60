"""Linear probe: how well a linear head on frozen features predicts a sentence's label (paper A.4)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from isoloss.device import free_memory
from isoloss.errors import BadInput
from isoloss.languages.task import LabelledSentences, most_probable
from isoloss.measurements.probe_minibatches import Draw, OneHotRows, dense_minibatches, with_one_more
from isoloss.progress import Progress, silent
from isoloss.results.estimate import Estimate, deviation_of, paired_difference, sample_mean
from isoloss.results.record import Record, Setting
from isoloss.results.store import ONLY_WHEN_CHANGED

CPU = torch.device("cpu")


@dataclass(frozen=True)
class Accuracy:
    """Test accuracy of one classifier per seed; `quantity` is the prefix of its records' names.

    `correct[i]` is the share of the seeds' classifiers that are right about test sentence i, `by_seed` the
    accuracy of each. See `minus`, by which two checkpoints are compared.
    """

    quantity: str
    correct: Float[Tensor, " n"]
    by_seed: Float[Tensor, " S"]

    @staticmethod
    def of(quantity: str, right: Float[Tensor, "S n"]) -> "Accuracy":
        """From a matrix with 1 where a seed's classifier (row) is right about a sentence (column), else 0."""
        return Accuracy(quantity, correct=right.mean(dim=0), by_seed=right.mean(dim=1))

    def minus(self, reference: "Accuracy") -> Estimate:
        """The accuracy less that of `reference`, on the same n examples and S seeds, both of them samples.

        The square of its error is s² of the examples' mean differences over n, plus s² of the seeds' over S,
        which counts the noise of a seed on an example twice: rather too much. Its degrees of freedom are
        Satterthwaite's (1946, An Approximate Distribution of Estimates of Variance Components).
        """
        of_examples = paired_difference(self.correct, reference.correct)
        of_seeds = paired_difference(self.by_seed, reference.by_seed)
        parts = [(of.standard_error**2, of.degrees_of_freedom) for of in (of_examples, of_seeds)]
        variance = sum(part for part, _ in parts)
        spread = sum(part**2 / freedom for part, freedom in parts)
        freedom = variance**2 / spread if spread else of_examples.degrees_of_freedom
        return Estimate(of_examples.value, math.sqrt(variance), of_examples.n, freedom)

    def minus_constant(self, correct: Float[Tensor, " n"]) -> Estimate:
        """See `minus`, of a reference that is the same for every seed, such as a constant answer."""
        return self.minus(Accuracy("constant", correct, correct.mean().repeat(len(self.by_seed))))

    @property
    def estimate(self) -> Estimate:
        """Mean accuracy, with its standard error over test sentences after averaging over seeds."""
        return sample_mean(self.correct)

    def sentence_values(self) -> dict[str, Float[Tensor, " n"]]:
        """Per-sentence values of the accuracy among the `records`."""
        return {f"{self.quantity}_accuracy": self.correct}

    def records(self, checkpoint: str, settings: dict[str, Setting]) -> list[Record]:
        """`.._accuracy`, and `.._deviation_over_seeds` (the paper's error bar), whose n counts seeds."""
        quantities = {
            f"{self.quantity}_accuracy": self.estimate,
            f"{self.quantity}_deviation_over_seeds": deviation_of(self.by_seed),
        }
        return [
            estimate.record(name, "fraction", None, checkpoint, settings)
            for name, estimate in quantities.items()
        ]


@dataclass(frozen=True)
class ProbeSettings:
    """How the heads are trained: the paper's settings; it does not give the minibatch size.

    AdamW has torch's default betas (0.9, 0.999) and epsilon 1e-8. `dropout` is that of features in training.
    With `warm_up_steps`, the learning rate rises linearly for that many steps and then decays linearly,
    reaching 0 one step after the last; with None it is constant. See `released_probe`.
    """

    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    epochs: int = 100
    learning_rate: float = 1e-3
    weight_decay: float = 0.01
    batch_size: int = 256
    dropout: float = field(default=0.0, metadata=ONLY_WHEN_CHANGED)
    warm_up_steps: int | None = field(default=None, metadata=ONLY_WHEN_CHANGED)

    def __post_init__(self) -> None:
        if len(set(self.seeds)) != len(self.seeds) or len(self.seeds) < 2:
            raise BadInput(f"a probe needs at least two different seeds for its deviation, not {self.seeds}")
        if min(self.epochs, self.batch_size) < 1:
            raise BadInput("a probe's epochs and batch_size must be at least 1")
        if not 0 <= self.dropout < 1:
            raise BadInput(f"a probe's dropout must be at least 0 and below 1, not {self.dropout}")

    def rate(self, step: int, steps: int) -> float:
        """The learning rate of step `step` (from 1) of `steps`.

        >>> [released_probe().rate(step, 149) for step in (25, 50, 100)]
        [0.0005, 0.001, 0.0005]
        """
        if self.warm_up_steps is None:
            return self.learning_rate
        falling = (steps + 1 - step) / max(1, steps + 1 - self.warm_up_steps)
        return self.learning_rate * min(1.0, step / max(1, self.warm_up_steps), falling)


def released_probe() -> ProbeSettings:
    """The authors' released code: dropout of 0.1 on the features, minibatches of 512, linear decay.

    The decay begins after 50 warm-up steps. `ProbeSettings()` follows the paper's text instead.
    """
    return ProbeSettings(batch_size=512, dropout=0.1, warm_up_steps=50)


CONVERGED_AFTER = 3000
"""Steps. After the paper's 100 epochs of 346 examples, 200 steps, heads on two models were right on 70 and
55 % of a test's texts, after 3,000 steps on 83 and 81 %, which is within the error of their difference."""


def converged_probe(examples: int) -> ProbeSettings:
    """The paper's settings; with few examples, as many more epochs as heads take to converge.

    >>> converged_probe(100_000).epochs, converged_probe(346).epochs
    (100, 1500)
    """
    paper = ProbeSettings()
    in_an_epoch = max(1, -(-examples // paper.batch_size))
    return replace(paper, epochs=max(paper.epochs, -(-CONVERGED_AFTER // in_an_epoch)))


@dataclass(frozen=True)
class Heads:
    """S linear heads over D features for k classes, which differ only in their training seed.

    `weight` has D_1 = D + 1 columns, of which the last is the bias.
    """

    weight: Float[Tensor, "S k D_1"]

    def predict(self, features: Float[Tensor, "n D"] | OneHotRows) -> Int[Tensor, "S n"]:
        """Each head's most likely class for every sentence."""
        if isinstance(features, OneHotRows):
            every = torch.arange(len(features)).expand(len(self.weight), -1)
            return features.minibatch(every).scores(self.weight).argmax(dim=1)
        with_one = with_one_more(features)
        return torch.stack([(with_one @ weight.mT).argmax(dim=1) for weight in self.weight])


def train_heads(
    features: Float[Tensor, "n D"] | OneHotRows,
    labels: Int[Tensor, " n"],
    classes: int,
    settings: ProbeSettings,
    progress: Progress = silent,
) -> Heads:
    """Train one head per seed by AdamW on the cross entropy, all heads at once as one batched problem.

    Each seed draws its initial weights, uniform in ±1/√D as `torch.nn.Linear` has them, and its own order of
    minibatches in each epoch; the heads are those after the last. Memory: the features twice, and S
    minibatches of them; of `OneHotRows` only their ones, and a fifth of the time. Raises BadInput for a label
    outside 0..classes - 1, when there are no examples, and for dropout of `OneHotRows`.
    """
    _check_labels(features, labels, classes)
    D = features.columns if isinstance(features, OneHotRows) else features.shape[1]
    generators = [torch.Generator().manual_seed(seed) for seed in settings.seeds]
    start = [torch.empty(classes, D + 1).uniform_(-(D**-0.5), D**-0.5, generator=g) for g in generators]
    weight = torch.stack(start)
    draw: Draw
    if isinstance(features, OneHotRows):
        if settings.dropout:
            raise BadInput("features that are 0 or 1 are probed without dropout; set it to 0")
        draw = features.minibatch
    else:
        weight = weight.to(features)
        draw = dense_minibatches(features, settings.batch_size, settings.dropout, generators)
    with torch.inference_mode():  # autograd's bookkeeping would be a sizeable part of so small a step
        _descend(weight, draw, labels, settings, generators, progress)
    return Heads(weight)


def _descend(
    weight: Float[Tensor, "S k D_1"],
    draw: Draw,
    labels: Int[Tensor, " n"],
    settings: ProbeSettings,
    generators: Sequence[torch.Generator],
    progress: Progress,
) -> None:
    """Train the heads `weight` in place; `draw` gives the rows of these numbers for each head."""
    n, size = len(labels), settings.batch_size
    first_moment, second_moment = torch.zeros_like(weight), torch.zeros_like(weight)
    count = torch.zeros((), device=weight.device)
    truth = nn.functional.one_hot(labels, weight.shape[1]).to(weight)
    step, steps = 0, settings.epochs * -(-n // size)
    for epoch in range(settings.epochs):
        order = torch.stack([torch.randperm(n, generator=g) for g in generators]).to(labels.device)
        targets = truth[order].mT.contiguous()
        for chosen, target in zip(torch.split(order, size, 1), torch.split(targets, size, 2), strict=True):
            minibatch = draw(chosen)
            # The gradient of the mean cross entropy at the logits is (p - onehot(y)) / size.
            residual = minibatch.scores(weight).softmax(dim=1)
            residual.sub_(target).div_(chosen.shape[1])
            step += 1
            # AdamW on one tensor, without the more expensive overhead of `torch.optim`.
            torch._fused_adamw_(
                [weight],
                [minibatch.gradient(residual)],
                [first_moment],
                [second_moment],
                [],
                [count.fill_(step)],
                lr=settings.rate(step, steps),
                beta1=0.9,
                beta2=0.999,
                weight_decay=settings.weight_decay,
                eps=1e-8,
                amsgrad=False,
                maximize=False,
            )
        progress("probe", epoch + 1, settings.epochs)


@dataclass(frozen=True)
class LabelledFeatures:
    """What heads are trained and tested on, and where; labels are numbered from 0 to `classes` - 1."""

    train: Float[Tensor, "n D"]
    train_labels: Int[Tensor, " n"]
    test: Float[Tensor, "n_test D"]
    test_labels: Int[Tensor, " n_test"]
    classes: int
    device: torch.device = CPU

    def probed(self, settings: ProbeSettings | None = None, progress: Progress = silent) -> Accuracy:
        """Train one head per seed on the training features, and evaluate all of them on the test features.

        Heads are trained on `device`, if it has room for the features three times, and otherwise where those
        are. Raises BadInput for labels that are none of the classes, or not one for each sentence.

        >>> x, y = torch.eye(4).repeat(50, 1), torch.arange(4).repeat(50)
        >>> LabelledFeatures(x, y, x, y, classes=4).probed(ProbeSettings(batch_size=20)).estimate.value
        1.0
        """
        settings = settings or ProbeSettings()
        _check_labels(self.test, self.test_labels, self.classes)
        room = 3 * (self.train.nbytes + self.test.nbytes) <= free_memory(self.device)
        device = self.device if room else self.train.device
        train, test = self.train.to(device), self.test.to(device)
        heads = train_heads(train, self.train_labels.to(device), self.classes, settings, progress)
        right = (heads.predict(test) == self.test_labels.to(device)).double().cpu()
        return Accuracy.of("linear_probe", right)


def reference_records(test: LabelledSentences, settings: dict[str, Setting]) -> list[Record]:
    """Model-free baselines and ceilings for a probe's accuracy on a test set.

    `chance_accuracy` is that of its most common label, `posterior_accuracy`, the ceiling, that of the exact
    posterior's most probable value, and `latent_agreement` how often the label is the true latent symbol.
    """
    posterior = test.posterior.double()
    quantities = {
        "chance_accuracy": (test.labels == test.labels.mode().values).double(),
        "posterior_accuracy": (most_probable(posterior) == test.labels).double(),
        "latent_agreement": posterior.max(dim=1).values,
    }
    return [
        sample_mean(values).record(name, "fraction", settings=settings) for name, values in quantities.items()
    ]


def _check_labels(features: Tensor | OneHotRows, labels: Tensor, classes: int) -> None:
    if len(labels) == 0 or len(features) != len(labels):
        raise BadInput(f"a probe needs a label for each sentence, not {len(labels)} for {len(features)}")
    if labels.min() < 0 or labels.max() >= classes:
        raise BadInput(
            f"labels must lie between 0 and {classes - 1}, not {int(labels.min())} and {int(labels.max())}"
        )
