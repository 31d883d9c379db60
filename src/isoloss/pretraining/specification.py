"""The complete specification of a run: together with the language, everything its weights depend on."""

import dataclasses
import hashlib
import json
from collections import Counter
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from isoloss.errors import BadInput, Damaged
from isoloss.models.transformers import Architecture
from isoloss.objectives.batch import Batch, Objective, PretrainingObjective
from isoloss.objectives.masked import MaskedObjective
from isoloss.objectives.predicted_logits import last_block_at, states_at
from isoloss.pretraining.update_rule import UpdateRuleSettings
from isoloss.results.checkpoint import SPECIFICATION_FILE, planned_digest, specification_digests
from isoloss.results.store import ONLY_WHEN_CHANGED, json_digest, read_sealed, write_sealed

Precision = Literal["float32", "bfloat16"]


@dataclass(frozen=True)
class Compute:
    """The precision of the matrix products in training, and whether its forward pass is compiled.

    "bfloat16" is torch's autocast: weights, their gradients and updates stay float32, matrix products and
    their outputs have 8 bits of mantissa, and scores are converted to float32 before the loss. `compiled`
    passes the model's backbone to `torch.compile`, which takes up to minutes at the first steps and needs a
    compiler; dropout then draws other numbers. Both affect only the training loss: checkpoints are measured,
    and the adversary's features computed, in the model's float32.

    `micro_batch` is how many sentences a process passes at once: gradients of a larger batch are accumulated
    over micro-batches, in the memory of one of them, and equal those of the whole batch up to rounding
    (`Training.add_gradient`). Dropout then draws other numbers, so the setting is part of a run's identity.
    """

    precision: Precision = "float32"
    compiled: bool = False
    micro_batch: int | None = field(default=None, metadata=ONLY_WHEN_CHANGED)

    def __post_init__(self) -> None:
        if self.micro_batch is not None and self.micro_batch < 1:
            raise BadInput(f"a micro-batch needs at least one sentence, not {self.micro_batch}")

    def of(self, objective: Objective, model: nn.Module) -> Objective:
        """The objective with its scores of `model` computed in this way; unchanged for plain float32."""
        carried_out = CompiledForward(objective, model) if self.compiled else objective
        return Bfloat16Forward(carried_out) if self.precision == "bfloat16" else carried_out


@dataclass(frozen=True)
class Bfloat16Forward:
    """An `Objective` under torch's autocast to bfloat16."""

    objective: Objective

    def logits(self, model: nn.Module, batch: Batch) -> Float[Tensor, "m v"]:
        """See `Objective.logits`; float32."""
        with torch.autocast(batch.input_ids.device.type, dtype=torch.bfloat16):
            scores = self.objective.logits(model, batch)
        return scores.float()


class CompiledForward:
    """An `Objective` that compiles the forward pass of `model`'s backbone, for itself only.

    Elsewhere the model is unchanged: measurements differentiate twice or map over sentences, neither of which
    compiled code supports.
    """

    def __init__(self, objective: Objective, model: nn.Module) -> None:
        self.objective = objective
        self.backbone: nn.Module = getattr(model, "base_model", model)
        # Not the module's call: if compiled with it, the hooks by which an objective selects its predictions
        # would remain those of the first batch forever.
        self.forward = torch.compile(self.backbone.forward)
        states = states_at(model)
        self.states = None if states is None else torch.compile(states)

    def logits(self, model: nn.Module, batch: Batch) -> Float[Tensor, "m v"]:
        if self.states is not None and len(batch.rows) == len(batch):
            with last_block_at(model, batch.positions, self.states):
                return self.objective.logits(model, batch)
        self.backbone.forward = self.forward
        try:
            return self.objective.logits(model, batch)
        finally:
            del self.backbone.forward  # the class's method is visible again


@dataclass(frozen=True)
class PretrainingSpecification:
    """What is trained on what, how, and from which seed.

    `language_digest` is the language's digest, `checkpoint_steps` increase and end with `steps`,
    `objective` determines the predictions, by default one masked word per sentence, and everything random is
    derived from `seed`. `start_from` is the `Checkpoint.digest` of the weights that training starts from,
    None for newly initialised ones; the rule's state and the step count start anew. `compute` is how a step's
    gradient is computed. With `averaging_horizon`, checkpoints hold the average of the weights over about
    that many steps (`WeightAverage`), with the raw weights beside it; None: no average is kept.

    Two runs of the same specification on the same machine, with equal numbers of threads and processes, have
    bit-identical weights. Raises BadInput for invalid numbers.
    """

    architecture: Architecture
    update_rule: UpdateRuleSettings
    language_digest: str
    steps: int
    batch_size: int
    seed: int
    checkpoint_steps: tuple[int, ...]
    objective: PretrainingObjective = field(default_factory=MaskedObjective)
    start_from: str | None = None
    compute: Compute = field(default=Compute(), metadata=ONLY_WHEN_CHANGED)
    averaging_horizon: int | None = field(default=None, metadata=ONLY_WHEN_CHANGED)

    def __post_init__(self) -> None:
        for name in ("steps", "batch_size", "seed"):
            number: object = getattr(self, name)
            if type(number) is not int:
                raise BadInput(f"{name} of a run is a whole number, not {number!r}")
        if self.steps < 1 or self.batch_size < 1:
            raise BadInput(
                f"a run needs at least one step and one sentence a batch, not {self.steps} and "
                f"{self.batch_size}"
            )
        if self.averaging_horizon is not None and self.averaging_horizon < 1:
            raise BadInput(
                f"weights are averaged over at least one step, not {self.averaging_horizon}; choose a "
                "horizon in steps, or none"
            )
        rising = sorted(set(self.checkpoint_steps)) == list(self.checkpoint_steps)
        if not rising or self.checkpoint_steps[:1] < (1,) or self.checkpoint_steps[-1:] != (self.steps,):
            raise BadInput(
                f"checkpoint steps must rise from at least 1 to the last step {self.steps}, not "
                f"{self.checkpoint_steps}"
            )

    @property
    def digest(self) -> str:
        """A hexadecimal digest of the whole specification: equal specifications have equal digests."""
        return json_digest(settings_as_json(self))


def settings_as_json(value: Any) -> Any:
    """Settings as plain JSON; a dataclass becomes an object whose "is" names its class.

    Fields excluded from comparison are excluded here, so that equal settings have equal JSON. If a class has
    a number `revision`, which marks a change in what equal settings mean, the object records it. A class that
    has replaced others says in `stored_as`, a dictionary, what its settings were called before.

    >>> from isoloss.models.transformers import Shape
    >>> settings_as_json((Shape(64, 1, 1, 256), 0.1))
    [{'is': 'Shape', 'width': 64, 'heads': 1, 'layers': 1, 'inner_width': 256}, 0.1]
    """
    if isinstance(value, float) and value.is_integer():
        return int(value)  # 1.0 and 1 are equal settings
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, tuple):
        return [settings_as_json(item) for item in value]
    if isinstance(stored := getattr(value, "stored_as", None), dict):
        return {name: settings_as_json(each) for name, each in stored.items()}
    if dataclasses.is_dataclass(value):
        kind: Any = type(value)
        named: dict[str, Any] = {"is": kind.__name__}
        if isinstance(revision := getattr(kind, "revision", None), int):
            named["revision"] = revision
        for each in _compared_fields(kind):
            setting = getattr(value, each.name)
            if each.metadata != ONLY_WHEN_CHANGED or setting != each.default:
                named[each.name] = settings_as_json(setting)
        return named
    raise BadInput(f"a setting must be a number, a string, or a dataclass of such, not {value!r}")


def settings_digest(value: Any) -> str:
    """SHA-256 of settings, after which what is drawn and measured is named; runs are by their `digest`."""
    return hashlib.sha256(json.dumps(settings_as_json(value), sort_keys=True).encode()).hexdigest()


@cache
def _compared_fields(kind: Any) -> tuple[dataclasses.Field[Any], ...]:
    return tuple(each for each in dataclasses.fields(kind) if each.compare)


def first_difference(there: Any, here: Any, name: str = "") -> str | None:
    """The first setting in which two `settings_as_json` differ, in words; None if they agree.

    >>> first_difference({"model": {"width": 64}}, {"model": {"width": 32}})
    'model.width is 64, not 32'
    """
    if isinstance(there, dict) and isinstance(here, dict):
        for key in [*here, *(key for key in there if key not in here)]:
            if difference := first_difference(there.get(key), here.get(key), f"{name}.{key}".lstrip(".")):
                return difference
        return None
    return None if there == here else f"{name} is {there}, not {here}"


def log_spaced_steps(first: int, last: int, per_doubling: int = 1) -> tuple[int, ...]:
    """Steps first * 2^(i / per_doubling), rounded, below `last`; then `last` itself.

    Raises BadInput unless 1 <= first <= last and per_doubling is positive.

    >>> log_spaced_steps(100, 1000, per_doubling=2)
    (100, 141, 200, 283, 400, 566, 800, 1000)
    """
    if not 1 <= first <= last:
        raise BadInput(f"checkpoints need 1 <= first step <= last step, not {first} and {last}")
    if per_doubling < 1:
        raise BadInput(f"checkpoints per doubling must be at least 1, not {per_doubling}")
    steps = {last}
    number = 0
    while (step := round(first * 2 ** (number / per_doubling))) < last:
        steps.add(step)
        number += 1
    return tuple(sorted(steps))


def claim(folder: Path, specification: PretrainingSpecification) -> None:
    """Write the specification into a new run's folder; refuse a folder with another specification.

    A damaged one, or one that was put there from another run, is rewritten if most checkpoints are of this
    run, or only some, if it is the one planned there; a damaged one also if there are none. Raises BadInput
    naming the first setting that differs, or what else is wrong.
    """
    path = folder / SPECIFICATION_FILE
    settings = settings_as_json(specification)
    of_checkpoints = Counter(specification_digests(folder))
    of_this_run = of_checkpoints[specification.digest]
    is_planned = of_this_run > 0 and planned_digest(folder) == specification.digest
    known = is_planned or 2 * of_this_run > of_checkpoints.total()
    try:
        there = read_sealed(path, SPECIFICATION_FILE)
    except Damaged:
        if path.exists() and of_checkpoints and not known:
            raise BadInput(
                f"{path} is damaged, and checkpoints in {folder} are of another run than this; name another "
                "folder"
            ) from None
        write_sealed(path, settings, SPECIFICATION_FILE)
        return
    # the number of steps first: settings that follow from it, such as the warm-up's, differ with it
    if difference := first_difference(there, {"steps": settings["steps"], **settings}):
        if not known:
            raise BadInput(
                f"{folder} holds another run: its {difference}; name another folder, or delete this one"
            )
        write_sealed(path, settings, SPECIFICATION_FILE)
