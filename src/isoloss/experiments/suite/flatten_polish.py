"""Flatten, then polish: models of equal KL, to 1e-5 nats, that differ in flatness."""

from dataclasses import replace

import numpy as np

from isoloss.experiments.claims import Claim
from isoloss.experiments.design import Design, Picture
from isoloss.experiments.equal_knowledge import (
    FLATTENED,
    SHARPENED,
    EqualKnowledge,
    by_label_noise,
    per_doubling,
)
from isoloss.experiments.experiment import Experiment
from isoloss.experiments.languages import ReadyLanguage, decided_grammar
from isoloss.experiments.polished_models import CLAIMS, in_seconds, polished_models
from isoloss.experiments.scale import Scale
from isoloss.experiments.schedules import Schedule
from isoloss.experiments.shared.language_runs import ScaleName, laptop_transformers
from isoloss.experiments.statistics.along_runs import in_doublings
from isoloss.experiments.statistics.seed_bootstrap import Frames
from isoloss.measurements.robustness import bits_column
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
    flattened=by_label_noise(Schedule(0.2, 64), 2000),
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
came loose along SGD, to 0.013 nats: hence 64. The window of the sharpening is 0.0026 to 0.0216 nats above the
entropy of 1.4588."""

SOONER = replace(
    DECIDED,
    start=Polished(
        4e-6,
        SOAP(1.5e-2, warm_up_steps=50, weight_decay=0.0, basis_steps=25, decay="cosine"),
        held_out=HELD_OUT,
    ),
    start_steps=2400,
    sharpened=replace(DECIDED.sharpened, strength=6.0),
    sharpened_steps=450,
)
"""With starts by SOAP in place of AdamW, which take half of the time: of 25 of width 48, with 2,000 steps,
one did not come to 5e-6 nats. In pilot runs with seeds 948 and 949 the polished were at 4.5e-6 to 5.3e-6
nats, the flattened at traces of 13 to 16, the sharpened of 69 to 88. Polished by SOAP too, models were judged
on seeds 421 to 425: some were not polished to the end, and within a start accuracies differed twice as much
as by AdamW, so that no effect on accuracy was decided."""

QUICK = replace(
    SOONER,
    in_turn=True,
    start=replace(SOONER.start, divergence=6e-6, asked_every=40, cycles=3),
    start_steps=4800,
    flattened=by_label_noise(Schedule(0.2, 32), 1600),
    sharpened=replace(SOONER.sharpened, strength=24.0),
    sharpened_steps=260,
    polished=replace(
        SOONER.polished,
        divergence=8e-6,
        least_steps=0,
        held_out=3000,
        asked_every=20,
        cycles=2,
        asked_below=4.0,
        goes_back=True,
    ),
    polished_steps=1600,
    polished_branches=(FLATTENED, SHARPENED),
)
"""A third of the time, for the main command: shorter branches, a seed has one of the sizes, and the branch
in between is not polished, on which a start's slope hardly depends. A model that is late has further cycles:
with one, down to 4e-6 and 5e-6 nats, of 25 starts (seeds 176 to 200) three came late, and the polished
models of one of them were left at 0.9e-5 to 1.4e-5, 0.7 doublings apart. In pilot runs with seeds 919 to 923
and 926 to 935 one start came after 2,920 steps and the others after 1,360 to 1,440; the polished came after
100 to 680, with cycles of 1,000 steps or of 800. First looked at after 200 steps, a sharpened model of seed
930 was at 4.3e-6 nats already, as one of seed 106 was, among the five (106 to 110) that were judged so.
Looked at below twice the mark alone, of 25 (seeds 126 to 500) three had a model that was 0.2 doublings below
its mark when first looked at, so that the premise of one KL was decided on 37 of 50 sets of five. Looked at
below four times the mark, of 30 (seeds 3 to 272) still one was 0.4 doublings below, and it was decided on 40
of 50 sets of six: now weights are kept before they are looked at, by which that one came within 0.1. With
two cycles one start of 30 more (seed 359) was left at 3e-5 nats, and its polished models with it, so that the
premise of their KL was decided on 40 of 50 sets; a third cycle takes it to 6e-6. Judged so, of one start of
30 (seed 803) the polished models are measured at 3e-5 all the same, and the premise is decided on 40 of 50
sets again: its start has not learned some rare sentences, one in 700, whose KL is near 0.01 nats, and the
3,000 held-out ones have too few of them. With 16,000 held-out ones and a third cycle of polishing they are
measured at 1.9e-5, with four times the cost."""

STEADY = replace(
    QUICK,
    polished_branches=DECIDED.polished_branches,
    start=replace(SOONER.start, asked_every=20, cycles=2),
    start_steps=4800,
    polished=replace(
        SOONER.polished, least_steps=40, held_out=3000, asked_every=20, cycles=2, goes_back=True
    ),
    polished_steps=4000,
)
"""For a night, further down, and all three branches: what is late has a second cycle, and no model is first
looked at when it is below the KL asked for. Of the 60 starts by AdamW at night (seeds 761 to 790) 11 were not
polished to one KL; of 30 by SOAP (seeds 289 to 820), in one cycle and first looked at after 200 steps, 3 were
not. With 1,000 sentences to say when to stop (SOONER), the models of 60 starts (seeds 501 to 530) lay 0.27
doublings of KL apart. First looked at after 200 steps, weights kept or not, a sharpened model of pilot seed
956 was at 3.4e-6 nats. Now the polished models of seeds 954 to 956 are at 4.8e-6 to 5.2e-6 nats, at traces of
11 to 97, and of 30 starts (seeds 531 to 560) 29 are within a fifth. A model whose noise was switched off is
below from the outset, and first has to move away: hence the 40 steps."""

ROUNDED = (8, 6, 4)
"""Bits: over these the slopes of one start differ half as much from another's as at 6 alone."""


def rounding_per_doubling(runs: Frames) -> float:
    """How log2 KL after rounding changes as the trace doubles: the mean over `ROUNDED`."""
    slopes = [per_doubling(in_doublings(bits_column(bits)))(runs) for bits in ROUNDED]
    return float(np.mean(slopes))


NIGHT_JUDGES = "the scale night judges it"


def _on_few_seeds(claim: Claim) -> Claim:
    if claim.name == "rounding-harms-the-sharper":
        return replace(
            claim,
            sentence="Rounding the weights to 8, 6 or 4 bits harms sharper models more.",
            measure=claim.measure.replace(
                "to 6 bits, by row", "to 8, 6 and 4 bits, by row, the mean of the three"
            ),
            statistic=rounding_per_doubling,
            withdrawn=f"so few seeds do not decide it, of 50 sets of five 35 did; {NIGHT_JUDGES}",
        )
    if claim.name == "know-nearly-everything":
        reason = "one start in thirty stays behind, and with it a set of six is undecided, as 10 of 50 were"
        return replace(claim, withdrawn=f"{reason}; {NIGHT_JUDGES}")
    return claim


ON_FEW_SEEDS = tuple(
    _on_few_seeds(claim) for claim in CLAIMS if claim.name != "flatter-is-no-better-from-fewer"
)
"""The claims as a laptop's seeds judge them. Over the starts of seeds 150 to 154 and of five pilots the slope
at 6 bits had a standard deviation of 0.46, the mean of three of 0.22; that of accuracy from 100 examples was
as large as its margin. The verdicts on five seeds would turn with them; that on rounding still did. With
five seeds those on flatter-is-no-better and know-the-same stood on 46 and 47 of 50 sets (seeds 56 to 80),
with six of these seeds, drawn 150 times, on 145 and 150: hence six. That of know-nearly-everything stood on
40 of 50 sets of six in two rounds (QUICK tells why), and on another processor it was open on the registered
seeds themselves."""

SMOKE = in_seconds(DECIDED, laptop_transformers((16,))[0])

MODELS: dict[ScaleName, EqualKnowledge] = {
    "smoke": SMOKE,
    "laptop": QUICK,
    "night": STEADY,
    "gpu": replace(DECIDED, architectures=laptop_transformers((64, 128, 256))),
    "paper": replace(DECIDED, architectures=laptop_transformers((64, 128, 256))),
}
"""At the scales gpu and paper wider models of the same language, untried: no model is known to come within
1e-5 nats of the paper's own languages."""

SEEDS: dict[ScaleName, tuple[int, ...]] = {
    "laptop": (*range(628, 631), *range(686, 689)),
    "night": tuple(range(21, 51)),
}
TASKS = ("prefix-8", "prefix-4")


def flatten_polish(scale: Scale) -> Experiment:
    """The starts, their branches and the polished models, with all that is measured of these."""
    experiment = polished_models(
        MODELS[scale.name],
        scale,
        TASKS,
        name="flatten-polish",
        gallery=1,
        title="At equal KL, is the flatter model better?",
        text=(
            "Checkpoints with the same pre-training loss differ in flatness, but also in what they know, by "
            "some thousandths of a nat: half a per cent of the loss is several doublings of KL, and accuracy "
            "follows KL. Here knowledge is made equal. The exact distribution of each masked word serves as "
            "the label (a soft label), so that training has no label noise and comes within 1e-5 nats of "
            "that distribution.",
            "From one such model, SGD on sampled words leads to flatter ones: the noise of the labels drives "
            "it (Theorem 3.3), and on soft labels, without that noise, it hardly moves. A third branch is "
            "made sharper. Branches are then polished on soft labels until they have the same KL. Their "
            "traces lie several times apart.",
            "Probes show whether at equal KL the flatter ones have better features. Noise on the weights, "
            "rounding to few bits, and fine-tuning to a second language with the same words and lower levels "
            "show what else flatness is good for.",
        ),
    )
    return replace(experiment, claims=ON_FEW_SEEDS) if scale.name == "laptop" else experiment


EXPERIMENT = Design(
    flatten_polish,
    seeds=SEEDS,
    registered="932d41e30eb6619b83dd4a6927490ddb3796ef06",
    earlier_seeds={
        "laptop": (
            (661, 662, 663, 664, 665),
            (691, 692, 693, 694, 695),
            (421, 422, 423, 424, 425),
            (431, 432, 433, 434, 435),
            (150, 151, 152, 153, 154),
            (155, 156, 157, 158, 159),
            (116, 117, 118, 119, 120),
            (106, 107, 108, 109, 110),
            (890, 896, 897, 898, 899),
            (51, 52, 53, 54, 55),
            (471, 472, 473, 474, 475, 476),
            (578, 579, 580, 720, 749, 750),
        ),
        "night": (tuple(range(761, 791)), (*range(289, 301), *range(323, 331), *range(811, 821))),
    },
    picture=Picture("equal-knowledge", "Accuracy and damage against the trace, of models of equal KL"),
    headline="flatter-is-no-better",
)
