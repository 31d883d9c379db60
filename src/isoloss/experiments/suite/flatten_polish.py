"""Flatten, then polish: models that know the same to 1e-5 nats and differ in flatness alone."""

from dataclasses import replace

from isoloss.experiments.design import Design, Picture
from isoloss.experiments.equal_knowledge import EqualKnowledge
from isoloss.experiments.experiment import Experiment
from isoloss.experiments.languages import ReadyLanguage, decided_grammar
from isoloss.experiments.polished_models import in_seconds, polished_models
from isoloss.experiments.scale import Scale
from isoloss.experiments.schedules import Schedule
from isoloss.experiments.shared.language_runs import ScaleName, laptop_transformers
from isoloss.pretraining.descent import SGD, AdamW
from isoloss.pretraining.flatness_regularised import Sharpened
from isoloss.pretraining.other_optimisers import SOAP
from isoloss.pretraining.polishing import Polished

HELD_OUT = 1000
"""Sentences whose KL says when a model is polished."""

DECIDED = EqualKnowledge(
    name="decided grammar",
    language=ReadyLanguage(decided_grammar()),
    architectures=laptop_transformers((48, 64)),
    start=Polished(9e-6, AdamW(8e-3, warm_up_steps=100, weight_decay=0.0, decay="cosine"), held_out=HELD_OUT),
    start_steps=4500,
    descent=Schedule(0.2, 64),
    descent_steps=2000,
    sharpened=Sharpened((1.4614, 1.4804), 0.02, 4.0, smoothing=0.9, optimiser=SGD(0.05, warm_up_share=0.0)),
    sharpened_steps=300,
    polished=Polished(
        5e-6,
        AdamW(2e-3, warm_up_steps=50, weight_decay=0.0, decay="cosine"),
        least_steps=200,
        held_out=HELD_OUT,
    ),
    polished_steps=1500,
)
"""In pilot runs with seeds 900 to 905 and 910 to 913 starts came below 1e-5 nats after 2,800 to 4,000 steps,
at traces of 24 to 55; width 32 stayed at 1.4e-4 and, with 4,000 steps in all, one of width 48 at 2.6e-5.
Polished, the flattened had traces of 10 to 14, the sharpened of 43 to 118, and their KL differed by 0.03 to
0.16 doublings. Where the average of the batches' own KL said when to stop, they differed by 0.34: the claims
were judged so on seeds 661 to 665, and the premise of one KL stayed open. With batches of 32 one of width 64
came loose along SGD, to 0.013 nats: hence 64. The window of the sharpening is 0.001 to 0.02 nats above the
entropy."""

SOONER = replace(
    DECIDED,
    architectures=laptop_transformers((48,)),
    start=Polished(
        4e-6,
        SOAP(1.5e-2, warm_up_steps=50, weight_decay=0.0, basis_steps=25, decay="cosine"),
        held_out=HELD_OUT,
    ),
    start_steps=2000,
    descent_steps=1500,
    sharpened=replace(DECIDED.sharpened, strength=8.0),
    sharpened_steps=450,
    polished=Polished(
        3e-6,
        SOAP(5e-3, warm_up_steps=20, weight_decay=0.0, basis_steps=25, decay="cosine"),
        least_steps=50,
        held_out=HELD_OUT,
    ),
    polished_steps=400,
)
"""With SOAP in place of AdamW, so that the command that makes Figure 1 has the time for it. In pilot runs
with seeds 947 to 951, widths 48 and 64, starts came to 4e-6 nats within 1,800 steps, at traces of 48 to 61.
Branched (for 2,000 and 600 steps, but seed 951) and polished, the flattened had traces of 13 to 15, those
without noise of 30 to 34 and the sharpened of 76 to 106; all came to within a third of 3e-6 nats."""


SMOKE = in_seconds(DECIDED, laptop_transformers((16,))[0], 0.25)

MODELS: dict[ScaleName, EqualKnowledge] = {
    "smoke": SMOKE,
    "laptop": SOONER,
    "night": DECIDED,
    "gpu": replace(DECIDED, architectures=laptop_transformers((64, 128, 256))),
    "paper": replace(DECIDED, architectures=laptop_transformers((64, 128, 256))),
}
"""At the scales gpu and paper wider models of the same language, untried: no model is known to come within
1e-5 nats of the paper's own languages."""

SEEDS: dict[ScaleName, tuple[int, ...]] = {
    "laptop": (421, 422, 423, 424, 425),
    "night": tuple(range(761, 791)),
}
TASKS = ("prefix-8", "prefix-4")


def flatten_polish(scale: Scale, seeds: tuple[int, ...] = ()) -> Experiment:
    """The starts, their branches and the polished models, with all that is measured of these.

    With the experiment's own seeds, or with those given.
    """
    return polished_models(
        MODELS[scale.name],
        scale,
        seeds or SEEDS.get(scale.name, scale.seeds),
        TASKS,
        name="flatten-polish",
        gallery=1,
        title="At equal KL, is the flatter model better?",
        text=(
            "Checkpoints of one pre-training loss differ in flatness, but also in the last thousandths of a "
            "nat that they know: half a per cent of the loss is several doublings of KL, and accuracy "
            "follows KL. Here knowledge is made equal. The exact distribution of each masked word is the "
            "label itself (soft labels): training has no label noise and comes within 1e-5 nats of it.",
            "From one such model SGD on words drawn flattens: the noise of labels drives it (Theorem 3.3), "
            "and on soft labels, without that noise, it hardly does. A third branch is made sharper. Then "
            "each is polished on soft labels to one KL. What remains between them is flatness: traces "
            "several times apart, at the same knowledge.",
            "Probes tell whether flatness alone makes features better. Noise on the weights, rounding to few "
            "bits and fine-tuning to a second language, with the same words and lower levels, tell what "
            "flatness buys.",
        ),
    )


EXPERIMENT = Design(
    flatten_polish,
    registered="27fdafd885163a6a8cbcc119f3528bb3b57f3113",
    earlier_seeds={"laptop": ((661, 662, 663, 664, 665), (691, 692, 693, 694, 695))},
    picture=Picture("equal-knowledge", "Accuracy and damage against the trace, of models of equal KL"),
    headline="flatter-is-no-better",
)
