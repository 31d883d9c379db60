"""What `isoloss compare` measures its checkpoints on: a text, a task, or both."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from isoloss.corpora.labelled_texts import TextTask
from isoloss.corpora.task_file import read_task
from isoloss.errors import BadInput
from isoloss.measurements.models_on_text import prediction_of, read_texts
from isoloss.measurements.prediction import Head, Prediction
from isoloss.models.loading import LanguageObjective

if TYPE_CHECKING:
    from isoloss.measurements.models_on_text import Texts


@dataclass(frozen=True)
class Sources:
    """The text and the task, either of which may be missing, and sentences (`notes`) on what was left out."""

    corpus: "Texts | None"
    task: TextTask | None
    settings: tuple[tuple[str, str], ...]
    notes: tuple[str, ...]

    @property
    def texts(self) -> Sequence[str]:
        """All that losses are measured on, or else the task's, on which tokenizers are told apart."""
        if self.corpus is not None:
            return self.corpus.read_by_tokenizers
        return self.task.train.texts if self.task is not None else ()


def read_sources(
    models: Sequence[str],
    objective: LanguageObjective | None,
    text: Path | None,
    dataset: str | None,
    task: Path | None,
    test: Path | None,
    columns: Sequence[str],
    examples: int | None,
) -> Sources:
    """Read what the models are measured on. Raises BadInput if it cannot be read, or is too little.

    Of models with the head of a task, `text` is the table of texts and of what the head is to say.
    """
    settings, notes = [], []
    predictions = {name: prediction_of(name, objective) for name in models}
    of_first, corpus = predictions[models[0]], None
    if text is not None or dataset is not None:
        _refuse_other_heads(predictions)
        corpus = read_texts(models, of_first, text, dataset)
    headed = next((name for name in models if isinstance(predictions[name], Head)), None)
    if task is not None and headed is not None:
        raise BadInput(
            f"{headed} has the head of a task ({predictions[headed].name}), and --task trains one; leave "
            "--task out, and name a table by --text"
        )
    if corpus is not None:
        settings.append(("text", f"{text or dataset}, {len(corpus):,} sentences"))
    found = None
    if task is not None:
        read = read_task(task, test, columns, examples)
        found, notes = read.task, list(read.notes)
        settings.append(("task", _task_in_words(task, test, found)))
    return Sources(corpus, found, tuple(settings), tuple(notes))


def _refuse_other_heads(predictions: Mapping[str, Prediction]) -> None:
    """Raise BadInput if only some of the models have the head of a task, or they have different ones."""
    heads = {name: each.name if isinstance(each, Head) else "none" for name, each in predictions.items()}
    if len(set(heads.values())) > 1:
        listed = ", ".join(f"{name} has {head}" for name, head in heads.items())
        raise BadInput(f"models with different heads of tasks are not compared: {listed}")


def _task_in_words(path: Path, test: Path | None, task: TextTask) -> str:
    parts = (("training", task.train), ("validation", task.validation), ("test", task.test))
    sizes = ", ".join(f"{len(part):,} for {name}" for name, part in parts)
    files = f"{path} and {test}" if test is not None else str(path)
    form = "texts" if task.train.seconds is None else "pairs of texts"
    return f"{files}: {form} of {len(task.classes)} classes, {sizes}"
