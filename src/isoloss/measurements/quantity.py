"""A measurement of a model: the interface of quantities, their subject and their result."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Generic, NamedTuple, Protocol, TypeVar, runtime_checkable

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from isoloss.curvature.derivatives import trainable_parameters
from isoloss.curvature.stopping import RunningEstimate
from isoloss.objectives.batch import Objective, PretrainingObjective
from isoloss.objectives.pretrained import SentencesApart
from isoloss.progress import Progress
from isoloss.results.estimate import Estimate, paired_difference
from isoloss.results.record import STRENGTHS, Record, Setting, Values

Source = TypeVar("Source", covariant=True)
LANGUAGES_AND_TEXT: tuple[type, ...] = (object,)
"""`Quantity.sources` of one that is measured on any language, on real text, and on a text of the user's."""
FLATTER, LOWER = "flatter", "lower"
"""What a smaller value means: of the measures of flatness, and of a quantity that does not say it."""
Columns = dict[str, Setting]
"""A quantity's part of a row of an experiment's table: its numbers, their errors, their n."""


@dataclass(frozen=True)
class Subject(Generic[Source]):
    """The model being measured: its name in records, how its scores are read, and where it is from.

    `source` is what it was trained on, or the text it is measured on; `folder` holds the model and its
    tokenizer, `seed` is that of its run. All its records have `settings`.
    """

    checkpoint: str
    objective: Objective
    settings: Mapping[str, Setting]
    source: Source
    folder: Path = Path()
    seed: int = 0

    def record(
        self, quantity: str, estimate: Estimate, unit: str, seed: int | None, **more: Setting
    ) -> Record:
        """An estimate as a record, with settings `more` in addition to the subject's."""
        return estimate.record(quantity, unit, seed, self.checkpoint, {**self.settings, **more})

    def measurement(
        self,
        quantity: str,
        estimate: Estimate,
        unit: str,
        seed: int | None,
        settings: Mapping[str, Setting] | None = None,
        *,
        values: Tensor | None = None,
        groups: Mapping[str, Estimate] | None = None,
    ) -> "Measurement":
        """That of one number: its record, those of its `groups`, and its `values` per independent unit.

        >>> from isoloss.objectives.pretrained import PretrainedCausal
        >>> subject = Subject("step-3", PretrainedCausal(), {"step": 3}, None)
        >>> mean = Estimate(2.0, 0.5, 9)
        >>> found = subject.measurement("loss", mean, "nats", seed=7, groups={"head": mean})
        >>> [(record.quantity, record.settings) for record in found.records]
        [('loss', {'step': 3}), ('loss_of_group', {'step': 3, 'group': 'head'})]
        """
        whole = self.record(quantity, estimate, unit, seed, **(settings or {}))
        parts = self.group_records(quantity, groups or {}, unit, seed)
        return Measurement([whole, *parts], {} if values is None else {quantity: values})

    def group_records(
        self, quantity: str, groups: Mapping[str, Estimate], unit: str, seed: int | None
    ) -> list[Record]:
        """One record `quantity`_of_group for each part of a model, named in its settings."""
        return [
            self.record(f"{quantity}_of_group", estimate, unit, seed, group=name)
            for name, estimate in groups.items()
        ]


@dataclass(frozen=True)
class Measurement:
    """Records of one model, and values for paired comparisons of models measured on the same set.

    The values of a record that is a mean over independent units, such as sentences, have its `value_name`.
    """

    records: Sequence[Record]
    values: Mapping[str, Tensor] = field(default_factory=dict)

    @property
    def arrays(self) -> Values:
        """The values as they are stored."""
        return {name: each.numpy(force=True) for name, each in self.values.items()}

    def minus(self, reference: "Measurement") -> Estimate | None:
        """The first record's number less the reference's, unit by unit; None without values.

        The units have a common order: of unequally many, the first ones are those that both have.

        >>> few, many = (Record("loss", 2.0, "nats", 0.5, n) for n in (2, 3))
        >>> other = Measurement([many], {"loss": torch.tensor([1.0, 2.0, 9.0])})
        >>> Measurement([few], {"loss": torch.tensor([2.0, 3.0])}).minus(other)
        Estimate(value=1.0, standard_error=0.0, n=2, degrees_of_freedom=1.0)
        """
        quantity = self.records[0].quantity
        values, others = self.values.get(quantity), reference.values.get(quantity)
        if values is None or others is None:
            return None
        common = min(len(values), len(others))
        return paired_difference(values[:common], others[:common])


@runtime_checkable
class Quantity(Protocol):
    """A frozen dataclass of everything a number depends on besides the model and its source.

    `revision`, initially 1, is incremented when the same settings start to give different numbers: it is part
    of the measurement's name, so that numbers of different revisions never appear in the same table.

    A class may also have `smaller_is: ClassVar[str]`, what a smaller value means of a model: "flatter"; and
    `error_over: ClassVar[str]`, what its error bars are over, and `n` counts, if not sentences: "chains".
    """

    revision: ClassVar[int]

    @property
    def sources(self) -> tuple[type, ...]:
        """What data may be drawn from: `Language`, `PackedCorpus`, `SampledBatches`, or any (`object`)."""
        ...

    @property
    def drawn_as(self) -> type:
        """The type of the drawn data, a dataclass that `results.tensors.tensors_of` can take apart."""
        ...

    def draw(self, source: Any, objective: PretrainingObjective, progress: Progress) -> Any:
        """Draw the data, the same for all models compared; a pure function of its arguments."""
        ...

    def measure(
        self, model: PreTrainedModel, drawn: Any, subject: Subject[Any], progress: Progress
    ) -> Measurement:
        """Measure the quantity for one model, which is left as found."""
        ...

    @property
    def column_names(self) -> tuple[str, ...]:
        """The names of `columns`, known before anything is measured."""
        ...

    def columns(self, records: Sequence[Record]) -> Columns:
        """The records of one checkpoint as columns of an experiment's table."""
        ...


class Running(RunningEstimate, Protocol):
    """What a quantity has found so far, which more sentences can be added to."""

    @property
    def apart(self) -> SentencesApart:
        """How sentences are kept apart from one another."""
        ...

    def result(self, stopped: str, sentences: int | None = None) -> Any:
        """The result so far, or of the first `sentences`."""
        ...


@runtime_checkable
class StopsAnywhere(Protocol):
    """A quantity that can be measured on more and more sentences, until its error is as asked."""

    def running(self, model: nn.Module, objective: Objective, memory_bytes: int) -> Running:
        """Start with no sentences; `memory_bytes` bounds the memory beside the model."""
        ...

    def measurement(self, result: Any, subject: Subject[Any]) -> Measurement:
        """The records of a result of `running`."""
        ...


def rounding_of_steps(model: nn.Module) -> dict[str, Setting]:
    """A `warning` for the settings of what steps of the weights do to the loss, if these are too coarse.

    >>> rounding_of_steps(nn.Linear(1, 1)), list(rounding_of_steps(nn.Linear(1, 1).bfloat16()))
    ({}, ['warning'])
    """
    if not (precision := half_precision(model)):
        return {}
    return {
        "warning": f"the steps in which its loss rises are rounded to its weights' {precision}, in which "
        "small ones are lost; measure it in float32"
    }


def half_precision(model: nn.Module) -> str | None:
    """The precision below float32 of any weights that it has in one.

    >>> half_precision(nn.Linear(1, 1)), half_precision(nn.Linear(1, 1).bfloat16())
    (None, 'bfloat16')
    """
    dtypes = {weight.dtype for weight in trainable_parameters(model).values()}
    names = [str(each).removeprefix("torch.") for each in dtypes if each.itemsize < torch.float32.itemsize]
    return min(names, default=None)


def takes(quantity: Quantity, source: type) -> bool:
    """Whether the quantity's data may be drawn from that, one of `Quantity.sources`."""
    return not {object, source}.isdisjoint(quantity.sources)


class Column(NamedTuple):
    """A column of an experiment's table: which record of a checkpoint it is from, and what it is of that.

    `of` is the record's place, or its quantity; `what` is "value", "standard_error" or "n", or a setting.
    """

    name: str
    of: int | str = 0
    what: str = "value"

    def read(self, records: Sequence[Record]) -> Setting:
        """What stands in the column."""
        named = {record.quantity: record for record in records}
        record = records[self.of] if isinstance(self.of, int) else named[self.of]
        numbers = {"value": record.value, "standard_error": record.standard_error, "n": record.n}
        return {**record.settings, **numbers}[self.what]


def with_error(name: str, of: int | str = 0) -> tuple[Column, Column]:
    """The columns of a record's number and of its error.

    >>> [column.read([Record("fisher_trace", 8.0, "", 0.5, 99)]) for column in with_error("trace")]
    [8.0, 0.5]
    """
    return Column(name, of), Column(f"{name}_error", of, "standard_error")


def columns_of(
    declared: Callable[[Any], Iterable[Column]],
) -> tuple[Any, Callable[[Any, Sequence[Record]], Columns]]:
    """`Quantity.column_names` and `Quantity.columns` of one with the `declared` columns; see `with_error`."""

    def of_records(quantity: Any, records: Sequence[Record]) -> Columns:
        known = (each for each in declared(quantity) if isinstance(each.of, str) or each.of < len(records))
        return {column.name: column.read(records) for column in known}

    return property(lambda quantity: tuple(column.name for column in declared(quantity))), of_records


def columns_in_order(*columns: str, n: str = "", settings: Sequence[str] = ()) -> tuple[Any, Any]:
    """The same for one whose first records are these columns, in order, each with its error.

    Of the very first, its `n` and some of its settings may be columns as well.

    >>> names, columns = columns_in_order("trace", n="trace_sentences")
    >>> names, columns(None, [Record("fisher_trace", 8.0, "", 0.5, 99)])
    (('trace', 'trace_error', 'trace_sentences'), {'trace': 8.0, 'trace_error': 0.5, 'trace_sentences': 99})
    """
    of_first = [*([Column(n, what="n")] if n else []), *(Column(name, what=name) for name in settings)]
    declared = (*_in_order(columns), *of_first)
    _, of_records = columns_of(lambda _: declared)
    return tuple(column.name for column in declared), of_records  # which experiments ask for very often


def columns_named_by(names: Callable[[Any], Iterable[str]]) -> tuple[Any, Any]:
    """The same for one whose settings say how its columns are called: `names` of it."""
    return columns_of(lambda quantity: _in_order(names(quantity)))


def _in_order(names: Iterable[str]) -> list[Column]:
    return [column for place, name in enumerate(names) for column in with_error(name, place)]


def warnings_of(records: Iterable[Record]) -> list[str]:
    """Why measured numbers should not be trusted, each reason once."""
    lines = (
        f"warning: {each.checkpoint}: {each.settings['warning']}"
        for each in records
        if each.settings.get("warning")
    )
    return list(dict.fromkeys(lines))


def row_title(record: Record) -> str:
    """What a record is of, beside others of its quantity: a part of the model, a strength, a difference.

    >>> row_title(Record("ascent_sharpness", 0.1, "nats", 0.0, 9, settings={"radius": 0.05}))
    'ascent_sharpness, radius 0.05'
    """
    if "reference" in record.settings:
        return f"minus {record.settings['reference']}"
    if "group" in record.settings:
        return str(record.settings["group"])
    strengths = [f", {name} {record.settings[name]}" for name in STRENGTHS if name in record.settings]
    return record.quantity + "".join(strengths)
