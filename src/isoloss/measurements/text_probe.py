"""Linear probe on real text: how well a linear head on a model's frozen vectors tells a text's label."""

from collections import Counter
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from transformers import PreTrainedModel

from isoloss.corpora.labelled_texts import TextTask
from isoloss.estimate import mean_over_sentences
from isoloss.measurements.accuracy import Accuracy
from isoloss.measurements.linear_probe import ProbeSettings, linear_probe
from isoloss.measurements.record import Record, Setting
from isoloss.measurements.text_features import text_features
from isoloss.measurements.text_inputs import LONGEST
from isoloss.progress import Progress, silent


def text_probe(
    model: PreTrainedModel,
    tokenizer: Any,
    task: TextTask,
    *,
    longest: int = LONGEST,
    settings: ProbeSettings | None = None,
    progress: Progress = silent,
) -> Accuracy:
    """Train a linear head a seed on the training texts' features, and measure all on the test texts.

    Features are those of `text_features`, centred and scaled by the training texts' means and deviations:
    means over tokens differ by little around one large common vector, in another unit in every model, and the
    heads' learning rate is one for all. That is a linear map, so what a linear head can tell is unchanged.
    Nothing is chosen on validation texts, which are not used. Raises BadInput where `text_features` does.
    """
    return probe_of_scaled(
        text_features(model, tokenizer, task.train, longest, progress=progress),
        torch.tensor(task.train.labels),
        text_features(model, tokenizer, task.test, longest, progress=progress),
        torch.tensor(task.test.labels),
        len(task.classes),
        settings,
        progress,
    )


def probe_of_scaled(
    train: Float[Tensor, "n D"],
    train_labels: Int[Tensor, " n"],
    test: Float[Tensor, "n_test D"],
    test_labels: Int[Tensor, " n_test"],
    classes: int,
    settings: ProbeSettings | None = None,
    progress: Progress = silent,
) -> Accuracy:
    """`linear_probe` of features centred and scaled by the training ones', in place; see `text_probe`."""
    mean, deviation = train.mean(0), train.std(0, correction=0)
    # A constant feature, such as one behind a dead unit, stays constant.
    scale = torch.where(deviation > 1e-6 * deviation.max(), deviation, torch.ones_like(deviation))
    train, test = train.sub_(mean).div_(scale), test.sub_(mean).div_(scale)
    return linear_probe(train, train_labels, test, test_labels, classes, settings, progress)


def majority_correct(task: TextTask) -> Float[Tensor, " n"]:
    """1 for each test text of the class that is the most common in training, and 0 for the others.

    >>> from isoloss.corpora.labelled_texts import LabelledTexts
    >>> part = LabelledTexts(("a", "b", "c"), None, (1, 0, 1))
    >>> majority_correct(TextTask("letters", ("low", "high"), part, part, part))
    tensor([1., 0., 1.], dtype=torch.float64)
    """
    counted = Counter(task.train.labels)
    most = max(range(len(task.classes)), key=lambda label: counted[label])  # of equals the first
    return (torch.tensor(task.test.labels) == most).double()


def majority_record(task: TextTask, settings: dict[str, Setting]) -> Record:
    """`majority_accuracy` on the test texts: what is right without reading a word; see `majority_correct`."""
    found = mean_over_sentences(majority_correct(task))
    return Record(
        "majority_accuracy", found.value, "fraction", found.standard_error, found.n, settings=dict(settings)
    )
