"""What crosses from an experiment to its measurements: a quantity, and what it is measured on."""

import dataclasses
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol, TypeVar, get_type_hints, runtime_checkable

from torch import Tensor
from transformers import PreTrainedModel

from isoloss.checked_tensors import Tensors, read_tensors, write_tensors
from isoloss.corpora.packed_corpus import PackedCorpus
from isoloss.errors import BadInput
from isoloss.languages.language import Language
from isoloss.measurements.record import Record, Setting
from isoloss.objectives.pretraining_objective import PretrainingObjective
from isoloss.pretraining.specification import settings_as_json
from isoloss.progress import Progress, silent

Drawn = TypeVar("Drawn")
Columns = dict[str, Setting]
"""A quantity's part of a row of an experiment's table: its numbers, their errors, their n."""


@dataclass(frozen=True)
class Subject:
    """The checkpoint that is measured: its folder, its name in records, and how it was trained.

    Records that are means over sentences leave each sentence's value in `sentence_values`, under
    `value_name`: runs measured on one set are then compared sentence by sentence.
    """

    folder: Path
    checkpoint: str
    objective: PretrainingObjective
    settings: Mapping[str, Setting]
    seed: int
    sentence_values: dict[str, Tensor] = field(default_factory=dict)


@runtime_checkable
class MeasuringSet(Protocol):
    """Everything drawn for one quantity and one language, shared by all that is compared."""

    def tensors(self) -> Tensors:
        """What was drawn, by names: all that the quantity, the language and the objective do not say."""
        ...

    def measure(self, model: PreTrainedModel, subject: Subject, progress: Progress) -> list[Record]:
        """The quantity of one model, which is left as it was found, as records."""
        ...


@runtime_checkable
class Quantity(Protocol):
    """A frozen dataclass: all that a number depends on besides the language, objective and checkpoint.

    `revision`, 1 at first, is raised when the same settings come to give other numbers: it is a part of the
    measurement's name, so that numbers of two revisions never meet in one table.
    """

    revision: ClassVar[int]

    def draw(self, language: Language, objective: PretrainingObjective, progress: Progress) -> MeasuringSet:
        """What it is measured on; a pure function of its arguments."""
        ...

    def restore(self, tensors: Tensors, language: Language, objective: PretrainingObjective) -> MeasuringSet:
        """The measuring set whose `tensors` these are, drawn for that language and objective."""
        ...

    def columns(self, records: Sequence[Record]) -> Columns:
        """The records of one checkpoint as columns of the experiment's table."""
        ...


@runtime_checkable
class CorpusQuantity(Protocol):
    """A `Quantity` of models of real text, whose distribution nobody knows; a class may be both."""

    revision: ClassVar[int]

    def draw_from(
        self, corpus: PackedCorpus, objective: PretrainingObjective, progress: Progress
    ) -> MeasuringSet:
        """What it is measured on; a pure function of its arguments."""
        ...

    def restore(
        self, tensors: Tensors, language: PackedCorpus, objective: PretrainingObjective
    ) -> MeasuringSet:
        """See `Quantity`; `language` is the corpus."""
        ...

    def columns(self, records: Sequence[Record]) -> Columns:
        """See `Quantity`."""
        ...


AnyQuantity = Quantity | CorpusQuantity


Weights = Literal["kept", "raw"]
"""Which weights of a checkpoint: what its folder holds, or beside averaged ones those of the last step."""


@dataclass(frozen=True)
class MeasuredAt:
    """A quantity, and the steps of a run at which it is measured.

    Of raw weights its columns have the prefix "raw_". What is not `needed` is shown beside the rest where it
    is there: a run is complete without it, so that one measured before it was asked for goes on counting.
    """

    quantity: AnyQuantity
    steps: tuple[int, ...]
    weights: Weights = "kept"
    needed: bool = True

    def columns(self, records: Sequence[Record]) -> Columns:
        """The records of one checkpoint as columns of the experiment's table, and which weights these are."""
        columns = self.quantity.columns(records) | {"checkpoint": records[0].checkpoint}
        return columns if self.weights == "kept" else {f"raw_{name}": columns[name] for name in columns}


def weights_setting(weights: Weights) -> dict[str, str]:
    """What plans and records say of the weights: nothing of those that a folder keeps, as is the rule."""
    return {} if weights == "kept" else {"weights": weights}


def quantity_digest(quantity: AnyQuantity, language_digest: str, objective: PretrainingObjective) -> str:
    """A short hexadecimal name: equal names mean numbers that can be compared."""
    settings = [settings_as_json(quantity), language_digest, settings_as_json(objective)]
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:16]


def silently(sentence: str) -> None:
    """Tell nobody: the default."""


def drawn(
    quantity: AnyQuantity,
    language: Language | PackedCorpus,
    language_digest: str,
    objective: PretrainingObjective,
    output: Path,
    progress: Progress = silent,
    tell: Callable[[str], None] = silently,
) -> MeasuringSet:
    """The quantity's measuring set, drawn once and kept in `output`.

    One whose file there is damaged or of another format is drawn again, nothing being lost, and `tell` is
    told. Raises BadInput
    where the quantity is none of such a language's, IsolossError when it cannot be written.
    """
    digest = quantity_digest(quantity, language_digest, objective)
    path = output / "measured-on" / f"{digest}.safetensors"
    if path.exists():
        try:
            return _restored(quantity, read_tensors(path, digest), language, objective)
        except BadInput:
            tell(f"{path} was damaged or of another format; it has been drawn again, to the same numbers")
    measuring_set = _drawn(quantity, language, objective, progress)
    write_tensors(path, measuring_set.tensors(), digest)
    return measuring_set


def _drawn(
    quantity: AnyQuantity,
    language: Language | PackedCorpus,
    objective: PretrainingObjective,
    progress: Progress,
) -> MeasuringSet:
    if isinstance(language, PackedCorpus):
        if isinstance(quantity, CorpusQuantity):
            return quantity.draw_from(language, objective, progress)
    elif isinstance(quantity, Quantity):
        return quantity.draw(language, objective, progress)
    raise _refused(quantity, language)


def _restored(
    quantity: AnyQuantity,
    tensors: Tensors,
    language: Language | PackedCorpus,
    objective: PretrainingObjective,
) -> MeasuringSet:
    if isinstance(language, PackedCorpus):
        if isinstance(quantity, CorpusQuantity):
            return quantity.restore(tensors, language, objective)
    elif isinstance(quantity, Quantity):
        return quantity.restore(tensors, language, objective)
    raise _refused(quantity, language)


def _refused(quantity: AnyQuantity, language: Language | PackedCorpus) -> BadInput:
    return BadInput(
        f"{type(quantity).__name__} cannot be measured on a {type(language).__name__}; choose another"
    )


def tensors_of(drawn: Any) -> Tensors:
    """The tensors of a dataclass whose fields are tensors or such dataclasses, by their dotted paths.

    >>> from isoloss.languages.sentences import Sentences
    >>> sorted(tensors_of(Sentences.from_lists([[0, 1]])))
    ['ids', 'lengths']
    """
    found: Tensors = {}
    for part in dataclasses.fields(drawn):
        value = getattr(drawn, part.name)
        if isinstance(value, Tensor):
            found[part.name] = value
        else:
            found |= below(part.name, value)
    return found


def below(name: str, drawn: Any) -> Tensors:
    """The tensors of such a dataclass, by paths below `name`; `within` finds them again."""
    return {f"{name}.{path}": tensor for path, tensor in tensors_of(drawn).items()}


def drawn_of(kind: type[Drawn], tensors: Mapping[str, Tensor]) -> Drawn:
    """The dataclass of that kind that `tensors_of` took apart.

    >>> from isoloss.languages.sentences import Sentences
    >>> drawn_of(Sentences, tensors_of(Sentences.from_lists([[0, 1], [2]]))).lengths
    tensor([2, 1])
    """
    values: dict[str, Any] = {}
    for name, of_field in get_type_hints(kind).items():
        nested = dataclasses.is_dataclass(of_field)
        values[name] = drawn_of(of_field, within(name, tensors)) if nested else tensors[name]
    return kind(**values)


def within(name: str, tensors: Mapping[str, Tensor]) -> Tensors:
    """The tensors below a path, by the rest of their paths."""
    below = f"{name}."
    return {path.removeprefix(below): tensors[path] for path in tensors if path.startswith(below)}
