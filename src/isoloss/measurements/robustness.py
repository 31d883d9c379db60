"""What flatness should buy: how a model stands damage to its weights, and fine-tuning to another language.

Damage is Gaussian noise of one deviation on every weight, of which the loss rises by ½ σ² Tr ∇²L to second
order, or rounding to few bits, as in quantised inference. The other language shares the lower levels.
"""

import copy
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn
from transformers import PreTrainedModel

from isoloss.curvature.weight_changes import rounded_to
from isoloss.errors import BadInput
from isoloss.languages.hmm import HMM, hmm
from isoloss.languages.language import Language
from isoloss.languages.pcfg import PCFG, pcfg
from isoloss.languages.random_grammar import with_other_upper_rules
from isoloss.measurements.exact_loss import EvaluationSet, ExactLossQuantity, KnownSentences, exact_loss
from isoloss.measurements.quantity import Measurement, Subject, columns_in_order, columns_named_by
from isoloss.objectives.batch import ExactObjective, PretrainingObjective
from isoloss.objectives.evaluation import displaced
from isoloss.objectives.masked import MaskedObjective
from isoloss.objectives.next_word import NextWordObjective
from isoloss.pretraining.descent import AdamW
from isoloss.pretraining.flatness_regularised import weight_noise
from isoloss.pretraining.stream import Stream
from isoloss.pretraining.update_rule import Training
from isoloss.progress import Progress
from isoloss.results.estimate import Estimate, sample_mean
from isoloss.seeds import caller_randomness_kept, derived_seed, seed_dropout


@contextmanager
def rounded(model: nn.Module, bits: int) -> Iterator[None]:
    """The model with every matrix and embedding `rounded_to` so many bits while the context is open.

    Rows are those of the matrices as they are stored: of GPT-2's, an input's weights, of others', an
    output's. Vectors (biases and gains) keep their precision, as usual. Keeps a copy of the matrices.
    """
    matrices: list[Tensor] = [weight for weight in model.parameters() if weight.ndim == 2]
    with torch.no_grad():
        moved = [rounded_to(weight, bits) - weight for weight in matrices]
    with displaced(matrices, moved):
        yield


@dataclass(frozen=True)
class WeightDamageQuantity:
    """KL(distribution || damaged model) on `sentences` sentences, in nats, for each noise and number of bits.

    Noise ε ~ N(0, σ²) is on every trained weight, for each σ in `noises` the mean over `draws` pairs ε and
    -ε, which are the same for all models of one shape. Memory: the weights three times.
    """

    revision: ClassVar[int] = 1
    sources: ClassVar[tuple[type, ...]] = (Language,)
    drawn_as: ClassVar[type] = KnownSentences
    column_names, columns = columns_named_by(
        lambda it: (*map(noise_column, it.noises), *map(bits_column, it.bits))
    )

    sentences: int
    seed: int
    noises: tuple[float, ...] = (0.003, 0.01, 0.03)
    bits: tuple[int, ...] = (8, 6, 4)
    draws: int = 4
    objective: ExactObjective = MaskedObjective()  # noqa: RUF009  (frozen)

    @property
    def _loss(self) -> ExactLossQuantity:
        return ExactLossQuantity(self.sentences, self.seed, self.objective)

    def draw(self, source: Language, objective: PretrainingObjective, progress: Progress) -> KnownSentences:
        return self._loss.draw(source, objective, progress)

    def measure(
        self, model: PreTrainedModel, drawn: KnownSentences, subject: Subject[Language], progress: Progress
    ) -> Measurement:
        """A record `kl_under_noise` for each noise and `kl_after_rounding` for each number of bits."""
        evaluation = self._loss.evaluation(drawn)
        records = []
        for done, noise in enumerate(self.noises):
            progress("weight noise", done, len(self.noises))
            found = self._under_noise(model, evaluation, noise)
            records.append(subject.record("kl_under_noise", found, "nats", self.seed, noise=noise))
        for bits in self.bits:
            with rounded(model, bits):
                found = sample_mean(exact_loss(model, self.objective, evaluation).kl)
            records.append(subject.record("kl_after_rounding", found, "nats", self.seed, bits=bits))
        return Measurement(records)

    def _under_noise(self, model: nn.Module, evaluation: EvaluationSet, noise: float) -> Estimate:
        """The mean over draws, with its error over them: they differ by more than sentences do."""
        weights: list[Tensor] = [weight for weight in model.parameters() if weight.requires_grad]
        found = []
        for draw in range(self.draws):
            shift = weight_noise(weights, self.seed, draw)
            for side in (noise, -noise):
                with displaced(weights, shift, side):
                    found.append(float(exact_loss(model, self.objective, evaluation).kl.mean()))
        pairs = torch.tensor(found, dtype=torch.float64).view(self.draws, 2).mean(1)
        return sample_mean(pairs)


def noise_column(noise: float) -> str:
    """The column of KL under noise of this deviation.

    >>> noise_column(0.01)
    'kl_noise_0.01'
    """
    return f"kl_noise_{noise:g}"


def bits_column(bits: int) -> str:
    """The column of KL after rounding to so many bits, such as kl_bits_4."""
    return f"kl_bits_{bits}"


TRIES = 100
"""Exchanges of roles that are drawn until one changes an HMM."""


def sibling(language: Language, seed: int) -> Language:
    """The same words and lower levels under another top: a function of the language and `seed`.

    Of a layered grammar, other pairs below the roots alone (`with_other_upper_rules`); of an HMM, the same
    emissions with the states' roles in the transitions exchanged. Raises BadInput for other languages, and
    for an HMM that no exchange of roles changes, such as one of a single state.

    >>> from isoloss.languages.random_hmm import random_hmm
    >>> first = random_hmm(words=12, states=8, blocks=2, length=8, seed=0)
    >>> second = sibling(first, seed=1)
    >>> bool((second.emission == first.emission).all()), bool((second.transition == first.transition).all())
    (True, False)
    """
    if isinstance(language, PCFG):
        levels = language.maximum_length.bit_length() - 1
        return pcfg(with_other_upper_rules(language.grammar, levels - 1, seed))
    if isinstance(language, HMM):
        generator = torch.Generator().manual_seed(seed)
        for _ in range(TRIES):
            order = torch.randperm(len(language.initial), generator=generator)
            roles, initial = language.transition[order][:, order].contiguous(), language.initial[order]
            if not (torch.equal(roles, language.transition) and torch.equal(initial, language.initial)):
                return hmm(language.words, initial, roles, language.emission, language.length)
        raise BadInput(
            f"exchanging the roles of its {len(language.initial)} states does not change this hidden Markov "
            "model; take one whose states differ"
        )
    raise BadInput(
        f"a {type(language).__name__} has no levels that a second language could share; take a layered "
        "grammar or a hidden Markov model"
    )


SECOND_LANGUAGE_COLUMNS = (
    "second_steps",
    "second_kl",
    "forgotten_kl",
    "averaged_kl",
    "averaged_second_kl",
    "merged_second_kl",
)


@dataclass(frozen=True)
class KnownLanguages:
    """Sentences of both languages with the distributions of their predictions."""

    first: KnownSentences
    second: KnownSentences


@dataclass(frozen=True)
class SecondLanguageQuantity:
    """What becomes of a model as it is fine-tuned to the language's `sibling`, twice on different sentences.

    `rule` trains copies on drawn words of the second language, as in practice, for `steps` of `batch_size`
    sentences; KL on the second language is measured at steps 0, `every`, 2 `every` and so on. Recorded are

    - `second_steps`: steps until KL on the second language has fallen to `target`, interpolated in its
      logarithm between measured steps; all of them where it does not, which then take more;
    - `second_kl` and `forgotten_kl`: KL on the second and on the first language at the end;
    - `averaged_kl`, `averaged_second_kl`: both, of the average of the weights before and after (Wortsman et
      al. 2022, "Robust fine-tuning of zero-shot models");
    - `merged_second_kl`: on the second, of the average of the two fine-tuned copies (Wortsman et al. 2022,
      "Model soups").

    Means over the two copies, but for the last. Memory: the model four times, and the optimiser's state.
    """

    revision: ClassVar[int] = 1
    sources: ClassVar[tuple[type, ...]] = (Language,)
    drawn_as: ClassVar[type] = KnownLanguages
    column_names, columns = columns_in_order(*SECOND_LANGUAGE_COLUMNS)

    sentences: int
    seed: int
    rule: AdamW
    steps: int
    batch_size: int
    every: int
    target: float
    sibling_seed: int = 1
    objective: MaskedObjective | NextWordObjective = MaskedObjective()  # noqa: RUF009  (frozen)

    @property
    def _loss(self) -> ExactLossQuantity:
        return ExactLossQuantity(self.sentences, self.seed, self.objective)

    def draw(self, source: Language, objective: PretrainingObjective, progress: Progress) -> KnownLanguages:
        both = (source, sibling(source, self.sibling_seed))
        return KnownLanguages(*(self._loss.draw(each, objective, progress) for each in both))

    def measure(
        self, model: PreTrainedModel, drawn: KnownLanguages, subject: Subject[Language], progress: Progress
    ) -> Measurement:
        second = sibling(subject.source, self.sibling_seed)
        steps, tuned = [], []
        for number in (0, 1):
            progress("fine-tuning to a second language", number, 2)
            copied, seed = copy.deepcopy(model), derived_seed(self.seed, "second language", number)
            steps.append(self._tuned(copied, second, drawn, seed))
            tuned.append(copied)
        averaged = [average_of(model, each) for each in tuned]
        found = {
            "second_steps": _mean(steps),
            "second_kl": _mean([self._kl(each, drawn.second) for each in tuned]),
            "forgotten_kl": _mean([self._kl(each, drawn.first) for each in tuned]),
            "averaged_kl": _mean([self._kl(each, drawn.first) for each in averaged]),
            "averaged_second_kl": _mean([self._kl(each, drawn.second) for each in averaged]),
            "merged_second_kl": sample_mean(self._kls(average_of(*tuned), drawn.second)),
        }
        return Measurement(
            [
                subject.record(name, found[name], "steps" if name == "second_steps" else "nats", self.seed)
                for name in SECOND_LANGUAGE_COLUMNS
            ]
        )

    def _tuned(self, model: PreTrainedModel, second: Language, drawn: KnownLanguages, seed: int) -> float:
        """Fine-tune `model` in place; returns the step at which the target is reached."""
        training = Training(model, self.objective, second, seed, self.steps, self.batch_size)
        rule = self.rule.build(training)
        curve = [(0, self._kl(model, drawn.second))]
        stream = Stream(second, self.objective, self.batch_size, seed)
        model.train()
        with caller_randomness_kept(model.device), stream.batches(0, self.steps) as batches:
            for step in range(1, self.steps + 1):
                seed_dropout(seed, step, model.device)
                rule.step(next(batches).to(model.device), step)
                if step % self.every == 0 or step == self.steps:
                    curve.append((step, self._kl(model, drawn.second)))
        return first_step_at(curve, self.target)

    def _kl(self, model: nn.Module, known: KnownSentences) -> float:
        return float(self._kls(model, known).mean())

    def _kls(self, model: nn.Module, known: KnownSentences) -> Float[Tensor, " n"]:
        return exact_loss(model, self.objective, self._loss.evaluation(known)).kl


def first_step_at(curve: Sequence[tuple[int, float]], target: float) -> float:
    """The step at which the logarithm of a curve, linear between its points, first falls to the target's.

    The last step if it does not.

    >>> first_step_at([(0, 1.0), (10, 0.25), (20, 0.125)], target=0.5)
    5.0
    """
    if curve[0][1] <= target:
        return float(curve[0][0])
    for (before, high), (after, low) in pairwise(curve):
        if low <= target:
            return before + (after - before) * math.log(high / target) / math.log(high / low)
    return float(curve[-1][0])


def average_of(first: PreTrainedModel, second: PreTrainedModel) -> PreTrainedModel:
    """A new model with the mean of two models' weights, parameter by parameter."""
    averaged = copy.deepcopy(first)
    with torch.no_grad():
        for weight, other in zip(averaged.parameters(), second.parameters(), strict=True):
            weight.lerp_(other, 0.5)
    return averaged


def _mean(values: Sequence[float]) -> Estimate:
    return sample_mean(torch.tensor(values, dtype=torch.float64))
