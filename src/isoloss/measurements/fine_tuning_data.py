"""What fine-tuning trains and is measured on: checked before work starts, and named by a digest."""

import hashlib

from transformers import PretrainedConfig

from isoloss.errors import BadInput
from isoloss.languages.task import LabelledSentences, TaskSplits
from isoloss.measurements.labelled_inputs import InputSplits, LabelledInputs
from isoloss.models.transformers import longest_input
from isoloss.objectives.tokens import FIRST_WORD


def check_splits(splits: TaskSplits | InputSplits, classes: tuple[str, ...]) -> None:
    """Raise BadInput for splits on which nothing can be learnt or measured.

    Those are: fewer than two classes, labels that are none of them, training examples of a single class,
    no validation examples, fewer than two test examples.
    """
    if len(classes) < 2:
        raise BadInput(f"fine-tuning needs at least two classes, not {len(classes)}")
    # An error bar over test sentences takes two.
    least = {"train": 1, "validation": 1, "test": 2}
    for name in least:
        part: LabelledSentences | LabelledInputs = getattr(splits, name)
        if len(part) < least[name]:
            raise BadInput(f"the {name} split has {len(part)} examples; give at least {least[name]}")
        lowest, highest = int(part.labels.min()), int(part.labels.max())
        if lowest < 0 or highest >= len(classes):
            raise BadInput(
                f"labels of the {name} split lie between {lowest} and {highest}, but the {len(classes)} "
                "classes are numbered from 0"
            )
    if bool((splits.train.labels == splits.train.labels[0]).all()):
        raise BadInput(
            f"every training example is of the class '{classes[int(splits.train.labels[0])]}', so there is "
            "nothing to learn; draw more examples or choose another task"
        )


def check_fits(splits: TaskSplits, config: PretrainedConfig) -> None:
    """Raise BadInput for words or sentences beyond what the model was built for."""
    for name, part in _by_name(splits).items():
        word = int(part.sentences.ids.max())
        if word + FIRST_WORD >= config.vocab_size:
            raise BadInput(
                f"the {name} split has a word number {word}, but the model knows "
                f"{config.vocab_size - FIRST_WORD} words; fine-tune on a task of its own language"
            )
        words = int(part.sentences.lengths.max())
        if (positions := longest_input(config)) is not None and words + 1 > positions:
            raise BadInput(
                f"the {name} split has sentences of {words} words, but the model reads {positions - 1}; "
                "fine-tune on a task of its own language"
            )


def splits_digest(splits: TaskSplits) -> str:
    """SHA-256 of all sentences and labels, in their order."""
    digest = hashlib.sha256()
    for part in _by_name(splits).values():
        for tensor in (part.sentences.ids, part.sentences.lengths, part.labels):
            digest.update(f"{tuple(tensor.shape)}".encode())
            digest.update(tensor.numpy().tobytes())
    return digest.hexdigest()


def _by_name(splits: TaskSplits) -> dict[str, LabelledSentences]:
    return {"train": splits.train, "validation": splits.validation, "test": splits.test}
