"""A task on real text for models of a corpus: what a probe reads of a text, and the majority (A.5)."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from inspect import signature
from typing import Any, ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from transformers import PreTrainedModel

from isoloss.corpora.fetched_package import default_cache
from isoloss.corpora.labelled_texts import TaskSizes, TaskSource, TextTask, stand_in_validation
from isoloss.corpora.packed_corpus import PackedCorpus
from isoloss.errors import BadInput
from isoloss.measurements.labelled_inputs import LONGEST, InputSplits, TextInputs, text_inputs, text_splits
from isoloss.measurements.linear_probe import LabelledFeatures
from isoloss.measurements.quantity import Subject
from isoloss.models.tokenizer import load_tokenizer
from isoloss.objectives.batch import PretrainingObjective
from isoloss.objectives.evaluation import REAL_TEXT_MEMORY_BYTES, device_of, evaluation_mode, rows_at_once
from isoloss.objectives.pretrained import differ
from isoloss.progress import Progress, silent
from isoloss.results.estimate import sample_mean
from isoloss.results.record import Record, Setting
from isoloss.results.tensors import Tensors, data_of, from_plain, text_tensor


@dataclass(frozen=True)
class DrawnTask:
    """`left_out` counts test texts that occur in the corpus's validation split and are excluded.

    `commit` is that of the hub's data set whose texts these are, if it is known; None of other sources.
    """

    task: TextTask
    left_out: int
    commit: str | None = None

    def tensors(self) -> Tensors:
        """The whole task, as the bytes of its JSON; the commit beside it, if there is one."""
        content = asdict(self)
        commit = content.pop("commit")
        beside = {} if commit is None else {"commit": text_tensor(commit)}
        return {"task": text_tensor(content), **beside}

    @staticmethod
    def of_tensors(tensors: Tensors) -> "DrawnTask":
        commit = data_of(tensors["commit"]) if "commit" in tensors else None
        found: DrawnTask = from_plain(DrawnTask, {**data_of(tensors["task"]), "commit": commit})
        return found


@dataclass(frozen=True)
class TaskTexts:
    """A task on real text, and how many of its texts to use; see `Examples`.

    Texts are truncated to the models' maximum input length.
    """

    sources: ClassVar[tuple[type, ...]] = (PackedCorpus,)
    drawn_as: ClassVar[type] = DrawnTask

    task: TaskSource
    sizes: TaskSizes

    def draw(self, source: PackedCorpus, objective: PretrainingObjective, progress: Progress) -> DrawnTask:
        """The task without test texts that occur in the pre-training validation split, cut to `sizes`.

        Raises IsolossError if the task's texts cannot be obtained.
        """
        progress(f"texts of {self.task.name}", 0, 1)
        task = self.task.task(default_cache(), progress)
        standing = stand_in_validation(source, task.test)
        left = [row for row, stands in enumerate(standing) if not stands]
        used = self.sizes.of(replace(task, test=task.test[left]))
        return DrawnTask(used, len(task.test) - len(left), getattr(self.task, "commit", None))

    def task_of(self, drawn: DrawnTask) -> str:
        return drawn.task.name

    def features(
        self, model: PreTrainedModel, drawn: DrawnTask, subject: Subject[PackedCorpus], progress: Progress
    ) -> LabelledFeatures:
        tokenizer, longest = load_tokenizer(str(subject.folder)), subject.source.maximum_length + 1
        return task_features(model, tokenizer, drawn.task, longest, progress)

    def inputs(self, model: PreTrainedModel, drawn: DrawnTask, subject: Subject[PackedCorpus]) -> InputSplits:
        tokenizer, longest = load_tokenizer(str(subject.folder)), subject.source.maximum_length + 1
        return text_splits(model, tokenizer, drawn.task, longest)


DESCRIPTION = (
    "mean of the last layer's vectors of the text's own tokens (of a pair: that of the first text, then that "
    "of the second), each feature centred and scaled by the training texts"
)
"""What a probe of texts reads, in words."""


def features_of_inputs(
    model: PreTrainedModel,
    inputs: TextInputs,
    *,
    pairs: bool,
    memory_bytes: int = REAL_TEXT_MEMORY_BYTES,
    progress: Progress = silent,
) -> Float[Tensor, "n D"]:
    """The mean of the contextual vectors of each text's tokens: D = d, or 2 d for pairs.

    The paper concatenates the vectors of all positions (A.4), which needs texts of equal length. Those of
    real texts, which have any, are averaged; of a pair, which the model reads together, the means over its
    first and its second text are concatenated. Excluded are the tokens that the tokenizer adds ([CLS] is
    never trained by masked pre-training, and attention rests on it and on [SEP]: Clark et al. 2019, What Does
    BERT Look At?), and a causal model's first token, which has read nothing but itself and serves as the
    attention sink (Xiao et al. 2024, Efficient Streaming Language Models with Attention Sinks), unless it is
    alone.

    Vectors are the last hidden states of the backbone; dropout is off and the model is left as found. Where
    padding changes them, as in FNet, texts are read with those of their own length alone. On the CPU,
    float32, beside a forward pass within `memory_bytes`. Raises BadInput for a feature that is not
    finite, and for a model that has no vector of each token.
    """
    if "input_ids" not in signature(model.base_model.forward).parameters:  # Perceiver's has latent vectors
        raise BadInput(f"{type(model).__name__} has no vector of each token to probe; leave the task out")
    reads_both_ways = type(model).__name__.endswith("ForMaskedLM")
    without_cache = {} if reads_both_ways else {"use_cache": False}
    computing = _without_embeddings(model.base_model)

    def read(some: TextInputs) -> Float[Tensor, "k D"]:
        vectors = model.base_model(**some.arguments(model.device), **without_cache).last_hidden_state
        parts = some.parts if reads_both_ways else _without_first(some.parts)
        means = [_mean(vectors.float().cpu(), parts, part) for part in ((0, 1) if pairs else (0,))]
        return torch.cat(means, 1)

    order = inputs.lengths.argsort(descending=True, stable=True)
    found: list[Tensor] = []
    done = 0
    with evaluation_mode(model), torch.inference_mode():
        of_one_length = _padding_changes(read, inputs[order[[0, -1]]], model.dtype)
        while done < len(inputs):
            # Texts of similar length are batched together, so that little of a batch is padding.
            length = inputs.lengths[order[done]]
            at_once = rows_at_once(computing, int(length), memory_bytes)
            if of_one_length:
                at_once = min(at_once, int((inputs.lengths[order[done:]] == length).sum()))
            found.append(read(inputs[order[done : done + at_once]]))
            done += len(found[-1])
            progress("features of texts", done, len(inputs))
    features = torch.cat(found)[order.argsort()]
    if bad := int((~features.isfinite().all(1)).sum()):
        raise BadInput(
            f"{model.name_or_path or 'the model'} has features that are not finite for {bad:,} of "
            f"{len(inputs):,} texts; its weights have diverged: measure an earlier checkpoint"
        )
    return features


def _padding_changes(
    read: Callable[[TextInputs], Float[Tensor, "k D"]], long_and_short: TextInputs, precision: torch.dtype
) -> bool:
    """Whether the short text's features differ, by more than rounding, where the long one is beside it."""
    alone, beside = read(long_and_short[1:]), read(long_and_short)[1:]
    return differ(alone.to(precision), beside.to(precision))


def _mean(vectors: Float[Tensor, "n S d"], parts: Int[Tensor, "n S"], part: int) -> Float[Tensor, "n d"]:
    """The mean over the tokens of one part; zero if it has none left."""
    chosen = (parts == part).float()
    return (chosen[:, None] @ vectors)[:, 0] / chosen.sum(1, keepdim=True).clamp(min=1)


def _without_first(parts: Int[Tensor, "n S"]) -> Int[Tensor, "n S"]:
    """Excludes the first token if it belongs to a text, unless it is the text's only token."""
    others = ((parts == 0).sum(1) > 1) & (parts[:, 0] == 0)
    return torch.cat([parts[:, :1].masked_fill(others[:, None], -1), parts[:, 1:]], dim=1)


def _without_embeddings(backbone: nn.Module) -> nn.ModuleList:
    """The modules that compute: embedding lookups take no memory, however large the embedding."""
    leaves: Sequence[nn.Module] = [module for module in backbone.modules() if not list(module.children())]
    return nn.ModuleList([module for module in leaves if not isinstance(module, nn.Embedding)])


def scaled(
    train: Float[Tensor, "n D"], test: Float[Tensor, "n_test D"]
) -> tuple[Float[Tensor, "n D"], Float[Tensor, "n_test D"]]:
    """Features centred and scaled in place by the training texts' means and deviations.

    Means over tokens vary little around a large common vector, on a different scale in every model, whereas
    the heads' learning rate is the same for all.
    """
    mean, deviation = train.mean(0), train.std(0, correction=0)
    # A constant feature, such as one behind a dead unit, stays constant.
    scale = torch.where(deviation > 1e-6 * deviation.max(), deviation, torch.ones_like(deviation))
    return train.sub_(mean).div_(scale), test.sub_(mean).div_(scale)


def task_features(
    model: PreTrainedModel,
    tokenizer: Any,
    task: TextTask,
    longest: int = LONGEST,
    progress: Progress = silent,
) -> LabelledFeatures:
    """The `scaled` features of a task's training and test texts, which heads read; see `features_of_inputs`.

    Nothing is chosen on validation texts, which are not used. Raises BadInput as that and `text_inputs` do.
    """
    train, test = (text_inputs(model, tokenizer, part, longest) for part in (task.train, task.test))
    pairs = task.train.seconds is not None
    return labelled_features(model, train, test, len(task.classes), progress, pairs=pairs)


def labelled_features(
    model: PreTrainedModel,
    train: TextInputs,
    test: TextInputs,
    classes: int,
    progress: Progress,
    *,
    pairs: bool,
) -> LabelledFeatures:
    """The `scaled` features of training and test inputs, of both texts of each if in `pairs`; with labels."""
    read = (features_of_inputs(model, part, pairs=pairs, progress=progress) for part in (train, test))
    of_train, of_test = scaled(*read)
    return LabelledFeatures(of_train, train.labels, of_test, test.labels, classes, device_of(model))


def majority_correct(task: TextTask) -> Float[Tensor, " n"]:
    """1 for each test text of the most common training class, and 0 for the others.

    >>> from isoloss.corpora.labelled_texts import LabelledTexts
    >>> part = LabelledTexts(("a", "b", "c"), None, (1, 0, 1))
    >>> majority_correct(TextTask("letters", ("low", "high"), part, part, part))
    tensor([1., 0., 1.], dtype=torch.float64)
    """
    counted = Counter(task.train.labels)
    most = max(range(len(task.classes)), key=lambda label: counted[label])  # the first of equals
    return (torch.tensor(task.test.labels) == most).double()


def majority_record(task: TextTask, settings: dict[str, Setting]) -> Record:
    """`majority_accuracy` on the test texts, reached without reading a word; see `majority_correct`."""
    found = sample_mean(majority_correct(task))
    return found.record("majority_accuracy", "fraction", settings=settings)
