"""The exact masked loss of a model: entropy of the law plus KL(law || model), no sampled labels (A.5)."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from isoloss.errors import BadInput
from isoloss.estimate import Estimate, deviation_over_subsets, mean_over_sentences, mean_over_tokens
from isoloss.languages.language import Language
from isoloss.languages.sentences import Sentences
from isoloss.measurements.record import Record, Setting
from isoloss.objectives.evaluation_mode import FORWARD_MEMORY_BYTES, evaluation_mode, rows_at_once
from isoloss.objectives.masked import MaskedObjective
from isoloss.objectives.tokens import FIRST_WORD
from isoloss.progress import Progress, silent


@dataclass(frozen=True)
class EvaluationSet:
    """Fixed sentences and the exact law of each of their m words given the others, computed once.

    `log_law` is in nats, float64, a row a word in sentence and then position order; it takes 8 m c bytes.
    `entropy` is each sentence's mean over its own positions of the law's entropy, in nats.
    """

    sentences: Sentences
    log_law: Float[Tensor, "m c"]
    entropy: Float[Tensor, " n"]
    seed: int

    @staticmethod
    def draw(language: Language, n: int, seed: int, progress: Progress = silent) -> "EvaluationSet":
        """Draw n sentences and work out their masked laws, 256 sentences at a time.

        Raises BadInput for fewer than 5 sentences, which the paper's error bar over 5 subsets needs.
        """
        if n < 5:
            raise BadInput(
                f"{n} sentences are too few for the exact loss and its error bars; take at least 5"
            )
        sentences = language.sample(n, torch.Generator().manual_seed(seed))
        log_law = []
        for start in range(0, n, 256):
            part = sentences[start : start + 256]
            log_law.append(language.masked_log_law(part)[part.real])
            progress("exact laws", start + len(part), n)
        rows = torch.cat(log_law)
        entropy = _sentence_means(torch.special.entr(rows.exp()).sum(dim=1), sentences)
        return EvaluationSet(sentences, rows, entropy, seed)

    def records(self) -> list[Record]:
        """The law's entropy, sentence-averaged, and token-averaged too where sentences differ in length."""
        estimates = _averages("masked_entropy", self.entropy, self.sentences.lengths)
        return [
            Record(name, e.value, "nats", e.standard_error, e.n, self.seed) for name, e in estimates.items()
        ]


@dataclass(frozen=True)
class ExactLoss:
    """One model's exact loss on an evaluation set, sentence by sentence, in nats, float64.

    `kl` is each sentence's mean over its positions of KL(law || model), `entropy` the same of the law's
    entropy, which belongs to the set: it is common to all models measured on it and cancels from their
    differences, which `paired_difference` of two models' `kl` gives with its own error bar.
    """

    kl: Float[Tensor, " n"]
    evaluation: EvaluationSet

    @property
    def loss(self) -> Float[Tensor, " n"]:
        """Each sentence's mean cross entropy: entropy + KL."""
        return self.evaluation.entropy + self.kl

    def records(self, checkpoint: str, settings: dict[str, Setting]) -> list[Record]:
        """KL and loss with standard errors over sentences, and the paper's own error bar.

        `masked_loss_subset_deviation` is the standard deviation over 5 disjoint subsets. Where sentences
        differ in length, the token-averaged figures are records of their own.
        """
        lengths = self.evaluation.sentences.lengths
        estimates = _averages("masked_kl", self.kl, lengths) | _averages("masked_loss", self.loss, lengths)
        estimates["masked_loss_subset_deviation"] = deviation_over_subsets(self.loss)
        return [
            Record(
                name, e.value, "nats", e.standard_error, e.n, self.evaluation.seed, checkpoint, dict(settings)
            )
            for name, e in estimates.items()
        ]


def exact_loss(
    model: nn.Module,
    objective: MaskedObjective,
    evaluation: EvaluationSet,
    *,
    memory_bytes: int = FORWARD_MEMORY_BYTES,
    progress: Progress = silent,
) -> ExactLoss:
    """L = E_x E_t [H(law_t) + KL(law_t || f(x_{-t}))] over the set, every position masked in turn (A.5).

    The model's probabilities are normalised over its whole vocabulary, special tokens included, to which
    the law gives nothing. Sums are in float64. Dropout is off; the model is left as found.
    `memory_bytes` bounds a forward pass, at least one sentence's.

    Raises BadInput when the model's vocabulary is not the language's words and the special tokens, or
    when a score is not finite, naming the sentence.
    """
    sentences = evaluation.sentences
    n, width = sentences.ids.shape
    at_once = max(1, rows_at_once(model, width + 1, memory_bytes) // width)
    laws = torch.split(
        evaluation.log_law, [int(part.sum()) for part in torch.split(sentences.lengths, at_once)]
    )
    device = next(model.parameters()).device
    kl = []
    with evaluation_mode(model), torch.inference_mode():
        for start, log_law in zip(range(0, n, at_once), laws, strict=True):
            part = sentences[start : start + at_once]
            batch = objective.mask_every_position(part).to(device)
            logits = objective.logits(model, batch)
            _check_scores(logits, part, start, words=log_law.shape[1])
            kl.append(_sentence_means(_kl(log_law, logits.cpu()), part))
            progress("exact loss", start + len(part), n)
    return ExactLoss(torch.cat(kl), evaluation)


def _averages(quantity: str, values: Float[Tensor, " n"], lengths: Int[Tensor, " n"]) -> dict[str, Estimate]:
    """The sentence-averaged estimate, and the token-averaged one where it is another number."""
    estimates = {f"{quantity}_sentence_averaged": mean_over_sentences(values)}
    if lengths.min() < lengths.max():
        estimates[f"{quantity}_token_averaged"] = mean_over_tokens(values, lengths)
    return estimates


def _kl(log_law: Float[Tensor, "m c"], logits: Float[Tensor, "m v"]) -> Float[Tensor, " m"]:
    """KL(law || softmax(logits)) in nats; words of no probability add nothing."""
    log_model = logits.double().log_softmax(dim=1)[:, FIRST_WORD:]
    surplus = (log_law - log_model).where(log_law > -torch.inf, 0.0)
    return (log_law.exp() * surplus).sum(dim=1)


def _sentence_means(values: Float[Tensor, " m"], sentences: Sentences) -> Float[Tensor, " n"]:
    """Mean of each sentence's values, which stand in sentence order, one a word."""
    rows = sentences.real.nonzero()[:, 0]
    return torch.zeros(len(sentences), dtype=values.dtype).index_add(0, rows, values) / sentences.lengths


def _check_scores(logits: Float[Tensor, "m v"], part: Sentences, start: int, words: int) -> None:
    """Raise BadInput for a model of another vocabulary or scores that are not finite."""
    if logits.shape[1] != words + FIRST_WORD:
        raise BadInput(
            f"the model scores {logits.shape[1]} tokens, but a language of {words} words needs "
            f"{words + FIRST_WORD} ({FIRST_WORD} special tokens first); measure it on its own language"
        )
    bad = (~logits.isfinite().all(dim=1)).nonzero()
    if len(bad):
        row, position = part.real.nonzero()[int(bad[0])].tolist()
        raise BadInput(
            f"the model's scores for word {position + 1} of sentence {start + row + 1} are not finite; its "
            "weights have diverged: measure an earlier checkpoint"
        )
