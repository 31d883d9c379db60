"""The gaps of Lemma 3.2 at checkpoints of training runs, while the model still approaches the law."""

import tempfile
from dataclasses import dataclass
from pathlib import Path

from transformers import PreTrainedModel

from isoloss.models.shapes import Shape
from isoloss.models.transformers import PostLayerNormTransformer
from isoloss.pretraining.adamw import AdamW
from isoloss.pretraining.checkpoint import Checkpoint
from isoloss.pretraining.loop import pretrain
from isoloss.pretraining.specification import PretrainingSpecification
from isoloss.progress import Progress, silent
from isoloss.theory.alike_pairs import alike_pairs
from isoloss.theory.bartlett_matrices import BartlettMatrices, bartlett_matrices
from isoloss.theory.context_laws import enumerated_contexts
from isoloss.theory.enumerated_transformer import EnumeratedTransformer, parameter_vector


@dataclass(frozen=True)
class TrainingRuns:
    """Tiny transformers trained with AdamW on fresh sentences of `alike_pairs`; a run a seed.

    Checkpoints begin where contexts are being told apart: before, KL hardly moves.
    """

    words: int
    width: int
    learning_rate: float
    batch_size: int
    checkpoint_steps: tuple[int, ...]
    seeds: tuple[int, ...]


@dataclass(frozen=True)
class CheckpointMatrices:
    """The three matrices at one checkpoint of one run."""

    seed: int
    step: int
    matrices: BartlettMatrices


def checkpoint_matrices(runs: TrainingRuns, progress: Progress = silent) -> list[CheckpointMatrices]:
    """Train each run and take Σ, ∇²L and F at each of its checkpoints, exactly and in float64.

    The three are those of the loss over the words; see `EnumeratedTransformer`.
    """
    language = alike_pairs(runs.words)
    contexts = enumerated_contexts(language)
    architecture = PostLayerNormTransformer(Shape(runs.width, 2, 1, 2 * runs.width), 0.0, "eager")
    found: list[CheckpointMatrices] = []
    for seed in runs.seeds:
        specification = PretrainingSpecification(
            architecture,
            AdamW(learning_rate=runs.learning_rate, warm_up_steps=10, weight_decay=0.0),
            language.digest,
            steps=runs.checkpoint_steps[-1],
            batch_size=runs.batch_size,
            seed=seed,
            checkpoint_steps=runs.checkpoint_steps,
        )
        # A copy in float64 of its own, since the training model has to be left as found.
        double = architecture.build(runs.words, language.maximum_length, seed).double().eval()
        small = EnumeratedTransformer(double, contexts)

        def measure(
            checkpoint: Checkpoint,
            model: PreTrainedModel,
            seed: int = seed,
            small: EnumeratedTransformer = small,
        ) -> None:
            matrices = bartlett_matrices(small, contexts.laws, parameter_vector(model))
            found.append(CheckpointMatrices(seed, checkpoint.step, matrices))
            progress("Lemma 3.2 along runs", len(found), len(runs.seeds) * len(runs.checkpoint_steps))

        with tempfile.TemporaryDirectory() as folder:
            pretrain(specification, language, Path(folder), at_checkpoint=measure)
    return found
