"""A run as an experiment plans it: a language or a corpus, a specification, and what is measured of it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from numbers import Real
from pathlib import Path
from typing import Any, Literal

from isoloss.corpora.fetched_package import default_cache
from isoloss.corpora.packed_corpus import PackedCorpus
from isoloss.corpora.prepared_corpus import CorpusRequest, prepared_corpus
from isoloss.errors import BadInput
from isoloss.experiments.languages import LanguagePlan
from isoloss.languages.language import Language
from isoloss.measurements.quantity import Columns, Quantity, takes
from isoloss.models.transformers import Architecture
from isoloss.objectives.batch import PretrainingObjective
from isoloss.objectives.masked import MaskedObjective
from isoloss.pretraining.specification import Compute, PretrainingSpecification, settings_digest
from isoloss.pretraining.update_rule import UpdateRuleSettings
from isoloss.progress import Progress
from isoloss.results.checkpoint import STEPS_FOLDER, origin_digest, read_checkpoint
from isoloss.results.record import Record, Setting


@dataclass(frozen=True)
class CorpusPlan:
    """What a `LanguagePlan` is to a language, for text of unknown distribution: prepared once, in the cache.

    `words` is how many the tokenizer has; an objective that puts random words in needs to know before.
    """

    request: CorpusRequest
    words: int

    @property
    def digest(self) -> str:
        """Names the corpus by all that it depends on."""
        return self.request.digest

    @property
    def maximum_length(self) -> int:
        """How many words a sequence has after [CLS]."""
        return self.request.length - 1

    def language(self, output: Path, progress: Progress) -> PackedCorpus:
        """The corpus; it and what is fetched for it are kept in the user's cache, for all outputs.

        Raises IsolossError where its text cannot be had, BadInput where it has another number of words.
        """
        corpus = prepared_corpus(self.request, default_cache(), progress)
        if len(corpus.vocabulary) != self.words:
            raise BadInput(
                f"the corpus in {corpus.folder} has {len(corpus.vocabulary):,} words, not {self.words:,} as "
                "planned; plan with that number"
            )
        return corpus


Weights = Literal["kept", "raw"]
"""Which weights of a checkpoint: what its folder holds, or beside averaged ones those of the last step."""


@dataclass(frozen=True)
class MeasuredAt:
    """A quantity, and the steps of a run at which it is measured.

    For raw weights, its columns have the prefix "raw_".
    """

    quantity: Quantity
    steps: tuple[int, ...]
    weights: Weights = "kept"

    @property
    def column_names(self) -> tuple[str, ...]:
        """What `columns` will be called."""
        names = (*self.quantity.column_names, "checkpoint")
        return names if self.weights == "kept" else tuple(f"raw_{name}" for name in names)

    def columns(self, records: Sequence[Record]) -> Columns:
        """The records of one checkpoint as columns of the experiment's table, and which weights these are."""
        columns = named_as_planned(self.quantity, records) | {"checkpoint": records[0].checkpoint}
        return columns if self.weights == "kept" else {f"raw_{name}": columns[name] for name in columns}


def measured_at(steps: tuple[int, ...], *quantities: Quantity) -> tuple[MeasuredAt, ...]:
    """Each of the quantities at all of these steps."""
    return tuple(MeasuredAt(quantity, steps) for quantity in quantities)


def named_as_planned(quantity: Quantity, records: Sequence[Record]) -> Columns:
    """The records as columns. Raises BadInput if the quantity did not announce a column's name."""
    columns = quantity.columns(records)
    if unsaid := [name for name in columns if name not in quantity.column_names]:
        raise BadInput(f"{type(quantity).__name__} calls columns {unsaid}; let its column_names say so")
    return columns


def weights_setting(weights: Weights) -> dict[str, str]:
    """How plans and records describe the weights: not at all for those a checkpoint keeps, as usual."""
    return {} if weights == "kept" else {"weights": weights}


def quantity_digest(quantity: Quantity, language_digest: str, objective: PretrainingObjective) -> str:
    """A short hexadecimal digest: equal digests mean comparable numbers."""
    return settings_digest((quantity, language_digest, objective))[:16]


Labels = tuple[tuple[str, Setting], ...]
"""What distinguishes a run in its experiment's table and pictures: a width, a rule, a language."""

OWN_COLUMNS = frozenset({"run", "seed", "step", "saturated", "complete", "folder"})
"""Columns of every table, which no label may have the name of."""


@dataclass(frozen=True)
class Continued:
    """The checkpoint of another planned run from which a run starts."""

    run: "PlannedRun"
    step: int


@dataclass(frozen=True)
class PlannedRun:
    """One pre-training run, and the quantities measured at its checkpoints.

    `name` is unique in the experiment. Claims are judged on checkpoints from step `saturated_from` on.
    Planned runs with the same `digest`, in any experiments, are a single run on disk.
    """

    name: str
    language: LanguagePlan | CorpusPlan
    architecture: Architecture
    update_rule: UpdateRuleSettings
    steps: int
    batch_size: int
    seed: int
    checkpoint_steps: tuple[int, ...]
    saturated_from: int
    measured: tuple[MeasuredAt, ...]
    labels: Labels = ()
    objective: PretrainingObjective = MaskedObjective()  # noqa: RUF009  (frozen)
    continues: Continued | None = None
    compute: Compute = Compute()  # noqa: RUF009  (frozen)
    averaging_horizon: int | None = None

    def __post_init__(self) -> None:
        _ = self.planned_specification  # rejects numbers that do not make a run
        self._refuse_labels()
        if self.saturated_from > self.checkpoint_steps[-1]:
            raise BadInput(
                f"the run {self.name} is to be saturated from step {self.saturated_from:,} on, and its last "
                f"checkpoint is at step {self.checkpoint_steps[-1]:,}: none would be judged; give less"
            )
        before = self.continues
        if before is not None and before.step not in before.run.checkpoint_steps:
            raise BadInput(
                f"the run {self.name} cannot continue {before.run.name} from step {before.step}, at which "
                f"that has no checkpoint; it has {before.run.checkpoint_steps}"
            )
        for measured in self.measured:
            if unknown := set(measured.steps) - set(self.checkpoint_steps):
                raise BadInput(
                    f"the run {self.name} has no checkpoint at step {min(unknown)} to measure; "
                    f"it has {self.checkpoint_steps}"
                )
            self._refuse_what_cannot_be_measured(measured.quantity)
            if measured.weights == "raw" and self.averaging_horizon is None:
                raise BadInput(
                    f"the run {self.name} keeps no average, so that its checkpoints hold the raw weights: "
                    'measure those that it keeps (weights="kept"), or give it an averaging_horizon'
                )

    def __hash__(self) -> int:
        return hash(self.digest)  # all of its settings would take longer

    def refuse_one_column_of_two(self) -> None:
        """Raise BadInput if two quantities give one column at a step, of which a table would have the last.

        Of estimates, which have a column of errors; what a model is, as its size, may be told twice.
        """
        given: dict[tuple[str, int], Quantity] = {}
        for measured in self.measured:
            names = measured.column_names
            for place in product((name for name in names if f"{name}_error" in names), measured.steps):
                if given.setdefault(place, measured.quantity) != measured.quantity:
                    raise BadInput(
                        f"two quantities of the run {self.name} have the column {place[0]} at step "
                        f"{place[1]}; let their column_names differ, or measure one of them"
                    )

    def _refuse_labels(self) -> None:
        labels: object = self.labels
        if not isinstance(labels, tuple) or not all(isinstance(x, tuple) and len(x) == 2 for x in labels):
            raise BadInput(
                f"labels of the run {self.name} must be a tuple of names and values, such as "
                f'(("rule", "AdamW"),), not {labels!r}'
            )
        for label in labels:
            if not isinstance(label[0], str) or not isinstance(label[1], str | Real | None):
                raise BadInput(
                    f"the run {self.name} has the label {label!r:.60}; give it a text, a number or None"
                )
        names = [name for name, _ in self.labels]
        if twice := next((name for name in names if names.count(name) > 1), ""):
            raise BadInput(f"the run {self.name} has two labels {twice}; call one otherwise")
        columns = {name for measured in self.measured for name in measured.column_names}
        if taken := sorted(dict(self.labels).keys() & (OWN_COLUMNS | columns)):
            raise BadInput(f"the run {self.name} has a label {taken[0]} and a column; call one otherwise")

    def _refuse_what_cannot_be_measured(self, quantity: Quantity) -> None:
        of_text = isinstance(self.language, CorpusPlan)
        if not takes(quantity, PackedCorpus if of_text else Language):
            trained_on = (
                "real text, whose distribution nobody knows" if of_text else "a language, and not on a corpus"
            )
            raise BadInput(
                f"{type(quantity).__name__} cannot be measured of the run {self.name}, which is trained on "
                f"{trained_on}; choose another quantity"
            )

    @cached_property
    def digest(self) -> str:
        """Names the run by its complete specification, known before the run it continues has been made."""
        return self.planned_specification.digest

    def measured_on(self, quantity: Quantity) -> str:
        """The `quantity_digest` of a quantity that is measured of it."""
        return quantity_digest(quantity, self.language.digest, self.objective)

    @property
    def first_seed(self) -> int:
        """The seed of the first run of its chain of continued runs, whose errors are correlated."""
        return self.continues.run.first_seed if self.continues else self.seed

    @property
    def planned_specification(self) -> PretrainingSpecification:
        """The specification before there is anything: the run that it continues is named by its plan."""
        before = self.continues
        return PretrainingSpecification(
            architecture=self.architecture,
            update_rule=self.update_rule,
            language_digest=self.language.digest,
            steps=self.steps,
            batch_size=self.batch_size,
            seed=self.seed,
            checkpoint_steps=self.checkpoint_steps,
            objective=self.objective,
            start_from=origin_digest(before.run.digest, before.step) if before else None,
            compute=self.compute,
            averaging_horizon=self.averaging_horizon,
        )

    def carried_out_by(self, compute: Compute) -> "PlannedRun":
        """The same run, and that which it continues, in another precision or compiled: another digest.

        Micro-batches stay those planned, unless `compute` names their size.
        """
        return self.changed(
            lambda run: replace(
                run, compute=replace(compute, micro_batch=compute.micro_batch or run.compute.micro_batch)
            )
        )

    def changed(self, change: "Callable[[PlannedRun], PlannedRun]") -> "PlannedRun":
        """The run with the `change` made, to all that it continues too."""
        own, before = change(self), self.continues
        return replace(own, continues=Continued(before.run.changed(change), before.step)) if before else own

    def folder(self, output: Path) -> Path:
        """Where the run lives: named for its specification, so that experiments share what is equal."""
        return output / "runs" / self.digest[:16]

    def start_from(self, output: Path) -> Path | None:
        """The folder of the checkpoint that the run starts from, if any: its average, where it has one."""
        before = self.continues
        return before.run.folder(output) / STEPS_FOLDER / f"{before.step:06d}" if before else None

    def specification(self, language: Language | PackedCorpus, output: Path) -> PretrainingSpecification:
        """The specification with the language and the first weights as they have come to be.

        Raises IsolossError when the checkpoint to start from is missing or damaged.
        """
        start = self.start_from(output)
        weights = read_checkpoint(start).digest if start else None
        return replace(self.planned_specification, language_digest=language.digest, start_from=weights)


OTHER_SENTENCES = 10_000
"""What a branch's seed is above that of the run it continues, whose sentences it must not see again."""


def continued(origin: PlannedRun, step: int, **changes: Any) -> PlannedRun:
    """A run from another's checkpoint at `step`, on sentences that it has not seen; else changed as said."""
    seed = origin.seed + OTHER_SENTENCES
    return replace(origin, seed=seed, continues=Continued(origin, step), **changes)
