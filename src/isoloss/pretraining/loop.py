"""The one training loop."""

import math
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from time import perf_counter

import torch
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from isoloss.device import denormals_flushed, usable_device
from isoloss.errors import BadInput, IsolossError
from isoloss.files import only_process_in
from isoloss.languages.language import SentenceSource
from isoloss.models.tokenizer import tokenizer_of
from isoloss.pretraining.checkpoint_writing import (
    put_starting_weights,
    remove_leftovers,
    remove_superseded_states,
    restore,
    write_checkpoint,
)
from isoloss.pretraining.processes import ALONE, Processes
from isoloss.pretraining.running_averages import TrainingLoss, WeightAverage, diverged
from isoloss.pretraining.specification import PretrainingSpecification, claim
from isoloss.pretraining.stream import Stream
from isoloss.pretraining.update_rule import ComesToRest, Training, UpdateRule
from isoloss.progress import Progress, silent
from isoloss.results.checkpoint import Checkpoint, latest_checkpoint
from isoloss.seeds import caller_randomness_kept, derived_seed, seed_dropout

AtCheckpoint = Callable[[Checkpoint, PreTrainedModel], None]
"""Called after each checkpoint has been written, with the checkpoint and its model (that of the averaged
weights, where they are kept), which it must not change."""

AtStep = Callable[[int, Tensor, UpdateRule], None]
"""Told of each step, its loss in nats, on the device, and the rule, whose `readings` it may ask for."""

SECONDS_BETWEEN_REPORTS = 0.5
TASK = "pre-training"


def nothing(checkpoint: Checkpoint, model: PreTrainedModel) -> None:
    """Do nothing at a checkpoint: the default."""


def nothing_at_step(step: int, loss: Tensor, rule: UpdateRule) -> None:
    """Do nothing at a step: the default."""


@dataclass(frozen=True)
class PretrainingReport:
    """What one call of `pretrain` did.

    `resumed_from` is the step it resumed from, 0 for a new run. Of the `seconds` that its steps took,
    `waiting_seconds` were spent waiting for sentences and `writing_seconds` writing checkpoints. `damaged`
    has a sentence for each damaged checkpoint that was skipped, also passed to `progress`.
    """

    last: Checkpoint
    resumed_from: int
    seconds: float
    waiting_seconds: float
    writing_seconds: float
    damaged: tuple[str, ...]


def pretrain(
    specification: PretrainingSpecification,
    language: SentenceSource,
    folder: Path,
    *,
    start_from: Path | None = None,
    earlier_seeds: tuple[int, ...] = (),
    workers: int = 0,
    device: str = "cpu",
    processes: Processes = ALONE,
    at_step: AtStep = nothing_at_step,
    at_checkpoint: AtCheckpoint = nothing,
    progress: Progress = silent,
) -> PretrainingReport:
    """Train to the specification's last step, with checkpoints in `folder`, resuming an interrupted run.

    If interrupted or killed at any moment, the same call resumes from the newest intact checkpoint, with
    bit-identical results. `start_from` is the folder of the checkpoint that the specification starts from, if
    any; `earlier_seeds` are those of runs in which the weights of its architecture were trained, if it brings
    them. `workers` processes prepare sentences ahead of time (0: none, inline) and change nothing else.
    `at_checkpoint` is called with each checkpoint that this call writes, and with the one it resumes from, so
    that a crash between writing and calling skips none. `at_step` is called after each step that is taken: a
    rule that `ComesToRest` ends a run early, whose remaining checkpoints are then alike.

    If `processes` train together (`launched_processes`), each calls this with the same arguments and works on
    its share of every batch; gradients equal those of a single process up to rounding, and dropout draws
    other numbers. Only the main process writes, and calls `progress`, `at_step` and `at_checkpoint`. A run
    may resume with another number of processes.

    Raises BadInput for another language, another checkpoint to start from, a rule that does not fit, more
    processes than sentences, or another run's folder; IsolossError if another process trains there, writing
    to disk fails, a worker or one of `processes` is killed, or the loss is no longer finite.

    >>> import tempfile
    >>> from isoloss.languages.pcfg import pcfg
    >>> from isoloss.languages.random_grammar import laptop_grammar
    >>> from isoloss.models.transformers import laptop_shape
    >>> from isoloss.models.transformers import PreLayerNormTransformer
    >>> from isoloss.pretraining.descent import AdamW
    >>> language = pcfg(laptop_grammar(0))
    >>> specification = PretrainingSpecification(
    ...     PreLayerNormTransformer(laptop_shape(16)), AdamW(warm_up_steps=2), language.digest,
    ...     steps=4, batch_size=32, seed=0, checkpoint_steps=(2, 4),
    ... )
    >>> folder = Path(tempfile.mkdtemp())
    >>> pretrain(specification, language, folder).last.step
    4
    >>> pretrain(specification, language, folder).resumed_from
    4
    """
    _refuse_what_does_not_go_together(specification, language, processes)
    place = usable_device(device)
    with ExitStack() as held, caller_randomness_kept(place), denormals_flushed():
        processes.on_main(lambda: held.enter_context(only_process_in(folder)))
        words, longest, seed = len(language.vocabulary), language.maximum_length, specification.seed
        model = specification.architecture.build(words, longest, derived_seed(seed, "initialisation"))
        earlier_seeds += put_starting_weights(model, specification, start_from)
        model, horizon = model.to(place), specification.averaging_horizon
        average = None if horizon is None else WeightAverage(model, horizon)
        rule = _rule_for(model, specification, language, processes)
        # Only now, so that a refused run does not claim a folder.
        processes.on_main(lambda: claim(folder, specification))
        processes.on_main(lambda: remove_leftovers(folder))
        run = _Run(
            specification,
            earlier_seeds,
            folder,
            model,
            average,
            tokenizer_of(language),
            rule,
            Stream(language, specification.objective, specification.batch_size, seed),
            processes,
            at_step,
            at_checkpoint,
        )
        return _train(run, place, workers, progress if processes.number == 0 else silent)


def _rule_for(
    model: PreTrainedModel,
    specification: PretrainingSpecification,
    language: SentenceSource,
    processes: Processes,
) -> UpdateRule:
    objective = specification.compute.of(specification.objective, model)
    training = Training(
        model,
        objective,
        language,
        specification.seed,
        specification.steps,
        specification.batch_size,
        processes,
        specification.compute.micro_batch,
    )
    return specification.update_rule.build(training)


def _refuse_what_does_not_go_together(
    specification: PretrainingSpecification, language: SentenceSource, processes: Processes
) -> None:
    if language.digest != specification.language_digest:
        raise BadInput(
            f"the specification is for the language {specification.language_digest[:12]}, not "
            f"{language.digest[:12]}; hand over the language it was made for"
        )
    if specification.batch_size < processes.count:
        raise BadInput(
            f"a batch of {specification.batch_size} sentences cannot be shared by {processes.count} "
            "processes; start fewer, or enlarge the batch"
        )


@dataclass(frozen=True)
class _Run:
    """The state of the training loop."""

    specification: PretrainingSpecification
    earlier_seeds: tuple[int, ...]
    folder: Path
    model: PreTrainedModel
    average: WeightAverage | None
    tokenizer: PreTrainedTokenizerFast
    rule: UpdateRule
    stream: Stream
    processes: Processes
    at_step: AtStep
    at_checkpoint: AtCheckpoint

    @property
    def saved_model(self) -> PreTrainedModel:
        """The model that checkpoints hold."""
        return self.average.model if self.average else self.model

    @property
    def raw(self) -> PreTrainedModel | None:
        """The model being trained, if checkpoints hold another."""
        return self.model if self.average else None


def _train(run: _Run, device: torch.device, workers: int, progress: Progress) -> PretrainingReport:
    specification, seed, processes = run.specification, run.specification.seed, run.processes
    at_step = run.at_step if processes.number == 0 else nothing_at_step
    last, damaged = processes.on_main(lambda: latest_checkpoint(run.folder))
    if last:
        reached = last.step
        processes.on_main(lambda: remove_superseded_states(run.folder, reached))
        restore(last, run.saved_model, run.rule, run.raw)
        _tell_of(last, run)
    resumed_from = last.step if last else 0
    for sentence in damaged:
        progress(TASK, resumed_from, specification.steps, sentence)

    run.model.train()
    run.saved_model.train()
    losses = TrainingLoss(seed, resumed_from + 1, last.training_loss if last else math.nan)
    waiting = writing = 0.0
    begun = shown = perf_counter()
    with run.stream.batches(resumed_from, specification.steps, workers) as batches:
        for step in range(resumed_from + 1, specification.steps + 1):
            if not (isinstance(run.rule, ComesToRest) and run.rule.is_at_rest):
                asked = perf_counter()
                batch = next(batches).to(device)
                waiting += perf_counter() - asked

                seed_dropout(seed, step, device, processes.number)
                loss = run.rule.step(batch, step)
                losses.add(loss)
                at_step(step, loss, run.rule)
            if run.average:
                run.average.update(step)

            if step in specification.checkpoint_steps:
                losing = _losing(losses.settle(), run.rule)
                progress(TASK, step, specification.steps, f"{losing}, writing a checkpoint")
                settled = perf_counter()
                last = _leave_checkpoint(run, step, losses.since_checkpoint())
                writing += perf_counter() - settled
                _tell_of(last, run)
            elif (now := perf_counter()) - shown >= SECONDS_BETWEEN_REPORTS:
                shown = now
                pace = (now - begun) / (step - resumed_from)
                losing = _losing(losses.settle(), run.rule)
                progress(TASK, step, specification.steps, _status(losing, pace, specification, step))
    assert last is not None  # the last step is always a checkpoint
    return PretrainingReport(last, resumed_from, perf_counter() - begun, waiting, writing, damaged)


def _leave_checkpoint(run: _Run, step: int, training_loss: float) -> Checkpoint:
    # The loss is that of the weights before the step; these are the weights after it.
    if not all(bool(parameter.isfinite().all()) for parameter in run.model.parameters()):
        raise diverged("a weight is infinite or not a number", step, run.specification.seed)
    if not run.processes.hold_the_same(list(run.model.parameters())):
        raise IsolossError(
            f"at step {step} the processes hold different weights: {type(run.rule).__name__} does not go "
            "through Training.backward, or their devices differ; train in one process"
        )

    def write() -> Checkpoint:
        return write_checkpoint(
            run.folder,
            step,
            training_loss,
            run.specification,
            run.saved_model,
            run.tokenizer,
            run.rule,
            run.raw,
            run.earlier_seeds,
        )

    return run.processes.on_main(write)


def _tell_of(checkpoint: Checkpoint, run: _Run) -> None:
    run.processes.on_main(lambda: run.at_checkpoint(checkpoint, run.saved_model))


def _losing(loss: float, rule: UpdateRule) -> str:
    readings = (f", {name} {value:.4g}" for name, value in rule.readings().items())
    return f"loss {loss:.4f}" + "".join(readings)


def _status(losing: str, pace: float, specification: PretrainingSpecification, step: int) -> str:
    left = timedelta(seconds=round(pace * (specification.steps - step)))
    return f"{losing}, {specification.batch_size / pace:,.0f} sentences/s, {left} left"
