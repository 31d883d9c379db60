"""The accuracy of classifiers that were trained alike but for their seed, on one test set."""

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from isoloss.estimate import Estimate, mean_over_sentences
from isoloss.measurements.record import Record, Setting


@dataclass(frozen=True)
class Accuracy:
    """Test accuracy of one classifier a seed; `quantity` is how its records' names begin.

    `correct[i]` is the share of the seeds' classifiers that get test sentence i right, `by_seed` each one's
    accuracy. Two checkpoints measured on the same test sentences are compared by `paired_difference` of
    their `correct`.
    """

    quantity: str
    correct: Float[Tensor, " n"]
    by_seed: Float[Tensor, " S"]

    @staticmethod
    def of(quantity: str, right: Float[Tensor, "S n"]) -> "Accuracy":
        """From 1 where a seed's classifier (a row) is right about a sentence (a column), and 0 elsewhere."""
        return Accuracy(quantity, correct=right.mean(dim=0), by_seed=right.mean(dim=1))

    @property
    def estimate(self) -> Estimate:
        """Mean accuracy; its standard error is over test sentences, the seeds' classifiers being averaged."""
        return mean_over_sentences(self.correct)

    @property
    def deviation_over_seeds(self) -> Estimate:
        """Standard deviation over the seeds (the paper's error bar), with its own standard error."""
        deviation, seeds = float(self.by_seed.std()), len(self.by_seed)
        return Estimate(deviation, deviation / (2 * (seeds - 1)) ** 0.5, seeds)

    def sentence_values(self) -> dict[str, Float[Tensor, " n"]]:
        """Of the accuracy among the `records` its value a test sentence."""
        return {f"{self.quantity}_accuracy": self.correct}

    def records(self, checkpoint: str, settings: dict[str, Setting]) -> list[Record]:
        """`.._accuracy` and `.._deviation_over_seeds`, n being sentences and seeds."""
        quantities = {
            f"{self.quantity}_accuracy": self.estimate,
            f"{self.quantity}_deviation_over_seeds": self.deviation_over_seeds,
        }
        return [
            Record(name, e.value, "fraction", e.standard_error, e.n, None, checkpoint, dict(settings))
            for name, e in quantities.items()
        ]
