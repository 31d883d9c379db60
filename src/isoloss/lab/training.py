"""Making models in the laboratory: trained afresh, on from a model, flattened, polished, averaged."""

import copy
import tempfile
import warnings
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import SupportsIndex

import safetensors.torch
import torch
from torch import Tensor, nn

from isoloss.errors import BadInput, IsolossError
from isoloss.lab.models import (
    LanguageObjective,
    Model,
    Models,
    OneModel,
    Run,
    model,
    models_of,
    reader_of,
    refuse_no_language,
)
from isoloss.lab.network import GivenModel
from isoloss.lab.words import OneLine, folder_from, in_one_sentence, number_from, usable_seed, whole_number
from isoloss.languages.language import Language
from isoloss.measurements.exact_loss import EvaluationSet, exact_loss
from isoloss.models.tokenizer import tokenizer_of
from isoloss.models.transformers import PreLayerNormTransformer, laptop_shape
from isoloss.objectives.masked import MaskedObjective
from isoloss.objectives.soft_labels import SoftLabels
from isoloss.pretraining.descent import SGD, AdamW
from isoloss.pretraining.loop import AtStep, nothing_at_step, pretrain
from isoloss.pretraining.polishing import Polished
from isoloss.pretraining.running_averages import Diverged
from isoloss.pretraining.specification import PretrainingSpecification, log_spaced_steps
from isoloss.pretraining.update_rule import ComesToRest, UpdateRule, UpdateRuleSettings
from isoloss.progress import Progress
from isoloss.results.checkpoint import STEPS_FOLDER, WEIGHTS_FILE, checkpoint_folders, read_checkpoint

AVERAGED_SHARE = 32
"""Checkpoints hold the weights averaged over the last 1/32 of the run."""
HELD_OUT = 2000
"""Sentences on which a polished model's KL is what was asked for."""


def train(
    language: Language,
    of: SupportsIndex | OneModel = 32,
    *,
    steps: SupportsIndex,
    seed: SupportsIndex,
    rule: UpdateRuleSettings | None = None,
    batch: SupportsIndex = 64,
    at: Iterable[SupportsIndex] | None = None,
    soft: bool = False,
    name: str = "train",
    folder: Path | str | None = None,
    progress: Progress | None = None,
) -> Run:
    """Train on fresh sentences of the language and keep a model at each step in `at`, by default doubling.

    `of` is the width of a new two-layer transformer (pre-LN, no dropout), or a model, which is copied and
    trained on from its weights, but for those that are frozen, unless all are. `rule` is any update rule's
    settings, by default AdamW at 3e-3. `batch` is in sentences. With `soft` labels are the exact
    distributions. The models hold the weights averaged over the last 1/32 of the steps. With a `folder` the
    run is kept there: interrupted, the same call goes on.

    Raises BadInput for settings that cannot be used, a model that cannot read the language, or one that was
    trained with the same seed, whose sentences would come again; Damaged for a model in the folder that is
    not what was written, or is gone; IsolossError if the loss diverges.
    """
    refuse_no_language(language)
    lasting = _lasting(steps, batch, seed, at)
    if not isinstance(rule, UpdateRuleSettings | None) or isinstance(rule, type):
        raise BadInput(f"{rule!r:.60} is no update rule; give its settings, such as AdamW(3e-3)")
    start = (
        whole_number("the width", of) if isinstance(of, SupportsIndex) else _ready(of, language, lasting.seed)
    )
    rule = rule or AdamW(3e-3, warm_up_steps=max(1, lasting.steps // 16))
    return _run(start, language, soft, rule, lasting, name, folder, progress)


def flatten(
    of: OneModel,
    *,
    steps: SupportsIndex,
    seed: SupportsIndex,
    rate: float = 0.2,
    batch: SupportsIndex = 32,
    at: Iterable[SupportsIndex] | None = None,
    language: Language | None = None,
    name: str = "flatten",
    progress: Progress | None = None,
) -> Run:
    """Go on from a model by plain SGD on words drawn, whose noise drives it to flatter minima (Theorem 3.3).

    Its clock is τ = η²k / 4B, of the `rate` η, k steps and a `batch` of B sentences. The run begins with the
    model itself, at step 0. Raises BadInput as `train` does, and for a model whose language is not known.
    """
    start, known = _with_language(of, language)
    rule = SGD(number_from("the rate", rate), warm_up_share=0.0)
    run = train(
        known, start, steps=steps, seed=seed, rule=rule, batch=batch, at=at, name=name, progress=progress
    )
    return Run(name, (replace(start, name=name, step=0, run_digest=run.last.run_digest), *run))


def polish(
    of: OneModel,
    *,
    to: float,
    steps: SupportsIndex,
    seed: SupportsIndex,
    rate: float = 2e-3,
    batch: SupportsIndex = 128,
    language: Language | None = None,
    name: str | None = None,
    progress: Progress | None = None,
) -> Model:
    """Train a model on the exact distributions until KL(distribution || model) is `to`, in nats.

    Models polished to equal KL have as much left to learn, and may differ in flatness. AdamW at `rate` with a
    cosine decay over at most `steps` steps; KL is that on held-out sentences, the same for equal seeds. A
    model that does not get there, or was there already, is returned with a warning. Raises BadInput as
    `flatten` does.
    """
    start, known = _with_language(of, language)
    to, rate = number_from("the divergence to polish to", to), number_from("the rate", rate)
    called = name or f"{start.name}, polished"
    lasting = replace(_lasting(steps, batch, seed, [steps]), horizon=None)
    descent = AdamW(rate, warm_up_steps=max(1, lasting.steps // 40), weight_decay=0.0, decay="cosine")
    rule = Polished(to, descent, held_out=HELD_OUT, goes_back=True)
    ready = _ready(start, known, lasting.seed)
    arrived = False

    def look(_step: int, _loss: Tensor, rule: UpdateRule) -> None:
        nonlocal arrived
        arrived = isinstance(rule, ComesToRest) and rule.is_at_rest

    polished = _run(ready, known, True, rule, lasting, called, None, progress, look).last
    evaluation = EvaluationSet.draw(known, HELD_OUT, lasting.seed, objective=polished.objective)
    began, reached = (
        float(exact_loss(each.module, polished.objective, evaluation).kl.mean()) for each in (ready, polished)
    )
    doubt = ""
    if not arrived and reached > to:
        doubt = f"came to {reached:.3g} nats of KL, not {to:.2g}, in {lasting.steps:,} steps; give more"
    elif began < to:
        doubt = f"was at {began:.2g} nats of KL to begin with, which is below {to:.2g}; polish to less"
    elif not arrived:
        doubt = f"passed {to:.2g} nats of KL between two looks, and came to {reached:.3g}; give more steps"
    if doubt:
        warnings.warn(f"{called} {doubt}", stacklevel=2)
    return replace(polished, step=None, run_digest="")


@dataclass(frozen=True)
class _Lasting:
    """How long a run lasts; which models it keeps, averaged over `horizon` steps unless that is None."""

    steps: int
    batch: int
    seed: int
    at: tuple[int, ...]
    horizon: int | None


def _lasting(
    steps: SupportsIndex, batch: SupportsIndex, seed: SupportsIndex, at: Iterable[SupportsIndex] | None
) -> _Lasting:
    """Numbers as given, as Python's; checkpoints at doubling steps unless `at` says at which."""
    number = whole_number("the number of steps", steps)
    if not isinstance(at, Iterable | None):
        raise BadInput(f"the steps to keep models at are a list; give [{at!r}], not {at!r}")
    places = (
        log_spaced_steps(max(1, number // 32), max(1, number))
        if at is None
        else tuple(whole_number("a step to keep a model at", each) for each in at)
    )
    horizon = max(1, number // AVERAGED_SHARE)
    return _Lasting(
        number, whole_number("the number of sentences in a batch", batch), usable_seed(seed), places, horizon
    )


def _run(
    start: int | Model,
    language: Language,
    soft: bool,
    rule: UpdateRuleSettings,
    lasting: _Lasting,
    name: str,
    folder: Path | str | None,
    progress: Progress | None,
    at_step: AtStep = nothing_at_step,
) -> Run:
    """Train in the folder, or in a temporary one, and read the models of all checkpoints."""
    objective: LanguageObjective = MaskedObjective() if isinstance(start, int) else start.objective
    with in_one_sentence("training"), tempfile.TemporaryDirectory(prefix="isoloss-lab-") as temporary:
        specification = PretrainingSpecification(
            PreLayerNormTransformer(laptop_shape(start), 0.0)
            if isinstance(start, int)
            else GivenModel.of(start.module),
            rule,
            language.digest,
            steps=lasting.steps,
            batch_size=lasting.batch,
            seed=lasting.seed,
            checkpoint_steps=lasting.at,
            objective=SoftLabels(objective) if soft else objective,
            averaging_horizon=lasting.horizon,
        )
        place = Path(temporary) if folder is None else folder_from(folder)
        for finished in checkpoint_folders(place)[:-1]:  # of the last the loop itself makes sure
            read_checkpoint(finished)
        before = () if isinstance(start, int) else start.seeds
        try:
            pretrain(
                specification,
                language,
                place,
                earlier_seeds=before,
                at_step=at_step,
                progress=progress or OneLine(),
            )
        except Diverged as error:
            message = str(error) if folder else f"{error.reason}; lower the learning rate"
            raise IsolossError(message) from None
        seeds = (*before, lasting.seed)
        template = specification.architecture.build(len(language.vocabulary), language.maximum_length, 0)
        models = []
        for step in specification.checkpoint_steps:
            checkpoint = read_checkpoint(place / STEPS_FOLDER / f"{step:06d}")  # only the last was verified
            module = copy.deepcopy(template)
            safetensors.torch.load_model(module, checkpoint.folder / WEIGHTS_FILE)
            tokenizer = tokenizer_of(language)
            run = specification.digest
            models.append(Model(name, module.eval(), language, step, seeds, tokenizer, run))
    return Run(name, tuple(models))


def _with_language(of: OneModel, language: Language | None) -> tuple[Model, Language]:
    start = model(of)
    known = language or start.language
    if known is None:
        raise BadInput(f"nobody knows the language of {start.label}; say it: language=...")
    refuse_no_language(known)
    return replace(reader_of(start, known), language=known), known


def _ready(of: OneModel, language: Language, seed: int) -> Model:
    start = reader_of(model(of), language)
    if seed in start.seeds:
        raise BadInput(
            f"{start.label} was trained with seed {seed} on the sentences that would be drawn; give another"
        )
    return start


def average(models: Models, *, name: str = "average", language: Language | None = None) -> Model:
    """The model whose weights are the plain mean of the models' weights, such as checkpoints of one run.

    Buffers that are saved with weights, such as the running means of a batch norm, are averaged too. Raises
    BadInput for fewer than two, for models of different shapes, or if it cannot read the `language`.
    """
    every = models_of(models)
    if len(every) < 2:
        raise BadInput("an average takes at least two models; give more of a run's, or name more folders")
    first = every[0]
    mean = copy.deepcopy(first.module)
    held = _averaged_tensors(mean)
    shapes = {each: weight.shape for each, weight in held.items()}
    for count, other in enumerate(every[1:], start=2):
        weights = _averaged_tensors(other.module)
        if {each: weight.shape for each, weight in weights.items()} != shapes:
            raise BadInput(
                f"{first.label} and {other.label} have weights of different shapes, which have no average; "
                "give checkpoints of one model"
            )
        with torch.no_grad():
            for each, weight in held.items():
                weight.lerp_(weights[each].to(weight), 1 / count)
    seeds = tuple(dict.fromkeys(seed for each in every for seed in each.seeds))
    return model(Model(name, mean, first.language, None, seeds, first.tokenizer), language=language)


def _averaged_tensors(module: nn.Module) -> dict[str, Tensor]:
    """Its parameters, and the buffers of floating-point numbers that are saved with it, by name."""
    saved = module.state_dict()
    of_numbers = {
        name: each for name, each in module.named_buffers() if name in saved and each.is_floating_point()
    }
    return {**dict(module.named_parameters()), **of_numbers}
