"""The exact loss of a checkpoint: entropy plus KL(distribution || model), no sampled labels (A.5)."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from isoloss.errors import BadInput
from isoloss.languages.language import DistributionsAtPositions, Language
from isoloss.languages.sentences import Sentences
from isoloss.measurements.quantity import Column, Measurement, Subject, columns_of, with_error
from isoloss.objectives.batch import ExactObjective, PretrainingObjective
from isoloss.objectives.evaluation import FORWARD_MEMORY_BYTES, device_of, evaluation_mode, rows_at_once
from isoloss.objectives.masked import MaskedObjective
from isoloss.objectives.tokens import FIRST_WORD, scores_of_language
from isoloss.progress import Progress, silent
from isoloss.results.estimate import cluster_values, deviation_over_subsets, sample_mean
from isoloss.results.record import Record, Setting

MASKED = MaskedObjective()


SUMS_APART = 1e-4
"""By how much the sum of a distribution may differ from 1: more than rounding makes of a causal model's."""


@dataclass(frozen=True)
class EvaluationSet:
    """Fixed sentences and the exact distributions of their m predictions, computed once for one objective.

    `log_probabilities` is in nats, float64, with one row per prediction, ordered by sentence and then
    position, and one column per outcome; it takes 8 m k bytes. `entropy` is each sentence's mean over its
    predictions of the distribution's entropy, in nats.
    """

    sentences: Sentences
    log_probabilities: Float[Tensor, "m k"]
    entropy: Float[Tensor, " n"]
    seed: int
    objective: ExactObjective = MASKED

    @property
    def predictions(self) -> Int[Tensor, " n"]:
        """How many predictions each sentence has."""
        return self.objective.predictions(self.sentences)

    @staticmethod
    def draw(
        language: Language, n: int, seed: int, progress: Progress = silent, objective: ExactObjective = MASKED
    ) -> "EvaluationSet":
        """Draw n sentences and compute the distributions of all their predictions, in chunks of sentences.

        Raises BadInput for fewer than 5 sentences, which the paper's error bar over 5 subsets needs, and for
        a language whose distributions do not sum to 1.
        """
        if n < 5:
            raise BadInput(
                f"{n} sentences are too few for the exact loss and its error bars; take at least 5"
            )
        sentences = language.sample(n, torch.Generator().manual_seed(seed))
        log_probabilities = []
        at_once = 4 if isinstance(language, DistributionsAtPositions) else 256  # so that progress is visible
        for start in range(0, n, at_once):
            part = sentences[start : start + at_once]
            log_probabilities.append(objective.log_probabilities(language, part, start))
            progress("exact distributions", start + len(part), n)
        rows = torch.cat(log_probabilities)
        _refuse_improper(rows, language)
        entropy = _sentence_means(torch.special.entr(rows.exp()).sum(dim=1), objective.predictions(sentences))
        return EvaluationSet(sentences, rows, entropy, seed, objective)

    def records(self) -> list[Record]:
        """The entropy, sentence-averaged, and also token-averaged if sentences differ in length."""
        values = _averages(f"{self.objective.quantity}_entropy", self.entropy, self.predictions)
        return [sample_mean(each).record(name, "nats", self.seed) for name, each in values.items()]


def _refuse_improper(log_probabilities: Float[Tensor, "m c"], language: Language) -> None:
    """Entropy and KL of numbers that are no distribution would look like any others."""
    sums = log_probabilities.exp().sum(dim=1)
    farthest = float(sums[(sums - 1).abs().argmax()])
    if not abs(farthest - 1) < SUMS_APART:
        raise BadInput(
            f"a distribution of {type(language).__name__} sums to {farthest:.6g}, not to 1; mend its "
            "log-probabilities"
        )


@dataclass(frozen=True)
class ExactLoss:
    """One model's exact loss on an evaluation set, sentence by sentence, in nats, float64.

    `kl` is each sentence's mean over its predictions of KL(distribution || model). The entropy is the set's,
    so that `paired_difference` of two models' `kl` is that of their losses, with its own error bar.
    """

    kl: Float[Tensor, " n"]
    evaluation: EvaluationSet

    @property
    def loss(self) -> Float[Tensor, " n"]:
        """Each sentence's mean cross entropy: entropy + KL."""
        return self.evaluation.entropy + self.kl

    def sentence_values(self) -> dict[str, Float[Tensor, " n"]]:
        """Per-sentence values of each of the `records` that is a mean."""
        name, predictions = self.evaluation.objective.quantity, self.evaluation.predictions
        of_kl = _averages(f"{name}_kl", self.kl, predictions)
        return of_kl | _averages(f"{name}_loss", self.loss, predictions)

    def records(self, checkpoint: str, settings: dict[str, Setting]) -> list[Record]:
        """`masked_kl_..` and `masked_loss_..`, or `next_word_..`, with standard errors over sentences.

        `.._loss_subset_deviation` is the paper's own error bar, the standard deviation over 5 disjoint
        subsets. If sentences differ in length, the token-averaged numbers are separate records.
        """
        name, seed = self.evaluation.objective.quantity, self.evaluation.seed
        estimates = {which: sample_mean(each) for which, each in self.sentence_values().items()}
        estimates[f"{name}_loss_subset_deviation"] = deviation_over_subsets(self.loss)
        return [e.record(name, "nats", seed, checkpoint, settings) for name, e in estimates.items()]


def exact_loss(
    model: nn.Module,
    objective: ExactObjective,
    evaluation: EvaluationSet,
    *,
    memory_bytes: int = FORWARD_MEMORY_BYTES,
    progress: Progress = silent,
) -> ExactLoss:
    """L = E_x E_t [H(distribution_t) + KL(distribution_t || f_t)] over the set and all of a sentence's
    predictions (A.5).

    Of masked words, the distribution and f_t are those of x_t given x_{-t}; of next words, those of each word
    given the words before it, and of the end given all. The model's probabilities are normalised over its
    whole vocabulary, special tokens included, to which the distribution gives none. Sums are in float64.
    Dropout is off; the model is left as found. `memory_bytes` bounds a forward pass, of at least one
    sentence.

    Raises BadInput when the set is another objective's, when the model's vocabulary is not the language's
    words and the special tokens, or when a score is not finite, naming the sentence.
    """
    if objective != evaluation.objective:
        raise BadInput(
            f"the evaluation set has the distributions of {evaluation.objective}, but the objective is "
            f"{objective}; draw the set with the objective"
        )
    sentences, predictions = evaluation.sentences, evaluation.predictions
    n, width = sentences.ids.shape
    longest = int(sentences.lengths.argmax())
    rows_a_sentence = len(objective.every_prediction(sentences[longest : longest + 1]))
    at_once = max(1, rows_at_once(model, width + 1, memory_bytes) // rows_a_sentence)
    distributions = torch.split(
        evaluation.log_probabilities, [int(part.sum()) for part in torch.split(predictions, at_once)]
    )
    device = device_of(model)
    kl = []
    with evaluation_mode(model), torch.inference_mode():
        for start, log_probabilities in zip(range(0, n, at_once), distributions, strict=True):
            part = sentences[start : start + at_once]
            counts = predictions[start : start + at_once]
            logits = objective.logits(model, objective.every_prediction(part, start).to(device)).cpu()
            log_model = objective.outcomes(scores_of_language(model, logits.double().log_softmax(dim=1)))
            _check_scores(logits, counts, start, log_probabilities.shape[1] - log_model.shape[1])
            kl.append(_sentence_means(_kl(log_probabilities, log_model), counts))
            progress("exact loss", start + len(part), n)
    return ExactLoss(torch.cat(kl), evaluation)


def _averages(
    quantity: str, values: Float[Tensor, " n"], predictions: Int[Tensor, " n"]
) -> dict[str, Float[Tensor, " n"]]:
    """Values whose means are the sentence-averaged number, and the token-averaged one if it differs."""
    found = {f"{quantity}_sentence_averaged": values}
    if predictions.min() < predictions.max():
        found[f"{quantity}_token_averaged"] = cluster_values(values, predictions)
    return found


def _kl(log_probabilities: Float[Tensor, "m k"], log_model: Float[Tensor, "m k"]) -> Float[Tensor, " m"]:
    """KL(distribution || model) in nats; outcomes of zero probability contribute nothing."""
    surplus = (log_probabilities - log_model).where(log_probabilities > -torch.inf, 0.0)
    return (log_probabilities.exp() * surplus).sum(dim=1)


def _sentence_means(values: Float[Tensor, " m"], counts: Int[Tensor, " n"]) -> Float[Tensor, " n"]:
    """Mean of each sentence's values, given in sentence order, `counts[i]` of them for sentence i."""
    rows = torch.arange(len(counts)).repeat_interleave(counts)
    return torch.zeros(len(counts), dtype=values.dtype).index_add(0, rows, values) / counts


def _check_scores(logits: Float[Tensor, "m v"], counts: Int[Tensor, " n"], start: int, missing: int) -> None:
    if missing:
        tokens = logits.shape[1] + missing
        raise BadInput(
            f"the model scores {logits.shape[1]} tokens, but a language of {tokens - FIRST_WORD} words needs "
            f"{tokens} ({FIRST_WORD} special tokens first); measure it on its own language"
        )
    bad = (~logits.isfinite().all(dim=1)).nonzero()
    if len(bad):
        row = int(torch.arange(len(counts)).repeat_interleave(counts)[bad[0]])
        prediction = int(bad[0] - counts[:row].sum())
        raise BadInput(
            f"the model's scores for word {prediction + 1} of sentence {start + row + 1} are not finite; its "
            "weights have diverged: measure an earlier checkpoint"
        )


@dataclass(frozen=True)
class KnownSentences:
    """What is stored of an `EvaluationSet`; `log_law`, its name in files, holds the log-probabilities."""

    log_law: Float[Tensor, "m k"]
    entropy: Float[Tensor, " n"]
    sentences: Sentences


def loss_columns(objective: ExactObjective) -> tuple[Column, ...]:
    """The columns of an exact loss, its deviation over subsets, the divergence, and how many sentences."""
    name, averaged = objective.quantity, "sentence_averaged"
    return (
        *with_error("loss", f"{name}_loss_{averaged}"),
        Column("loss_deviation", f"{name}_loss_subset_deviation"),
        *with_error("kl", f"{name}_kl_{averaged}"),
        Column("loss_sentences", f"{name}_loss_{averaged}", "n"),
    )


@dataclass(frozen=True)
class ExactLossQuantity:
    """Loss and KL on `sentences` sentences; `objective` says which of their predictions are used."""

    revision: ClassVar[int] = 1
    sources: ClassVar[tuple[type, ...]] = (Language,)
    drawn_as: ClassVar[type] = KnownSentences
    column_names, columns = columns_of(lambda it: loss_columns(it.objective))

    sentences: int
    seed: int
    objective: ExactObjective = MaskedObjective()  # noqa: RUF009  (frozen)

    def draw(self, source: Language, objective: PretrainingObjective, progress: Progress) -> KnownSentences:
        found = EvaluationSet.draw(source, self.sentences, self.seed, progress, self.objective)
        return KnownSentences(found.log_probabilities, found.entropy, found.sentences)

    def evaluation(self, drawn: KnownSentences) -> EvaluationSet:
        """The evaluation set that was drawn."""
        return EvaluationSet(drawn.sentences, drawn.log_law, drawn.entropy, self.seed, self.objective)

    def measure(
        self, model: nn.Module, drawn: KnownSentences, subject: Subject[Language], progress: Progress
    ) -> Measurement:
        loss = exact_loss(model, self.objective, self.evaluation(drawn), progress=progress)
        return Measurement(loss.records(subject.checkpoint, dict(subject.settings)), loss.sentence_values())
