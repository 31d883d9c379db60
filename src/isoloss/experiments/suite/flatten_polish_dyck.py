"""Flatten, then polish, on Dyck strings: of models that know the same, does the flattest transfer best?"""

from dataclasses import replace

from isoloss.experiments.claims import Claim, Question
from isoloss.experiments.design import Design, Picture
from isoloss.experiments.dyck_continuations import COMPARED
from isoloss.experiments.equal_knowledge import PREMISES, SHARPENED, Branch, EqualKnowledge, in_seconds
from isoloss.experiments.experiment import Experiment
from isoloss.experiments.languages import ReadyLanguage
from isoloss.experiments.polished_models import CLAIMS, DAMAGE, as_the_trace_doubles, polished_panel
from isoloss.experiments.scale import Scale
from isoloss.experiments.shared.language_runs import UNJUDGED, laptop_transformers, rounds_at, seeds_at
from isoloss.experiments.statistics.along_runs import in_doublings
from isoloss.experiments.suite.dyck_transfer import MADE, count_error_axes
from isoloss.experiments.suite.flatten_polish import HELD_OUT
from isoloss.languages.dyck import dyck
from isoloss.measurements.robustness import WeightDamageQuantity
from isoloss.measurements.sample_efficiency import CountErrorQuantity
from isoloss.pretraining.descent import AdamW
from isoloss.pretraining.flatness_regularised import FlatnessRegularised, Sharpened
from isoloss.pretraining.polishing import Polished
from isoloss.results.verdict import Region, above

NOISE, SMALL_BATCHES = "noise on the weights", "small batches"
ON = AdamW(1e-3, warm_up_steps=100, weight_decay=0.0)


def flattened(rule: AdamW, steps: int) -> tuple[Branch, Branch]:
    """By noise on the weights, on soft labels; and by the noise of small batches of strings drawn."""
    return (
        Branch(NOISE, FlatnessRegularised(0.02, rule), steps, 128, 200, on_words_drawn=False),
        Branch(SMALL_BATCHES, rule, steps, 16, 200, on_words_drawn=True),
    )


DYCK = EqualKnowledge(
    name="Dyck strings",
    language=ReadyLanguage(dyck(10, 0.5)),
    architectures=laptop_transformers((32,)),
    start=Polished(
        6e-6,
        AdamW(2e-3, warm_up_steps=200, weight_decay=0.0, decay="cosine"),
        held_out=HELD_OUT,
        asked_every=20,
        cycles=2,
    ),
    start_steps=8000,
    flattened=flattened(ON, 3000),
    sharpened=Sharpened(
        (0.511, 0.515), 0.02, 16.0, smoothing=0.9, optimiser=replace(ON, learning_rate=2.5e-4)
    ),
    sharpened_steps=1000,
    polished=Polished(
        5e-6,
        AdamW(5e-4, warm_up_steps=50, weight_decay=0.0, decay="cosine"),
        least_steps=40,
        held_out=HELD_OUT,
        asked_every=20,
        cycles=2,
        asked_below=4.0,
        goes_back=True,
    ),
    polished_steps=4000,
    polished_branches=(NOISE, SMALL_BATCHES, SHARPENED),
)
"""By AdamW, with noise on the weights to flatten: SGD leaves these minima. docs/pilots.md has why."""

_SOON = replace(ON, warm_up_steps=2)
SMOKE = replace(
    in_seconds(DYCK, laptop_transformers((16,))[0]),
    flattened=flattened(_SOON, 10),
    sharpened=replace(DYCK.sharpened, optimiser=_SOON),
)

EXAMPLES = (4, COMPARED, 16)


def _counts_better(name: str, strings: int, sentence: str, claimed: Region, reason: str = "") -> Claim:
    what = f"log2 of the squared error in g* of heads fitted on {strings} strings, the median over samples,"
    of = in_doublings(f"count_error_{strings}")
    return as_the_trace_doubles(name, sentence, what, of, claimed, reason, MADE)


DAMAGED = ("noise-harms-the-sharper", "rounding-harms-the-sharper")

CLAIMS_ON_DYCK = (
    *PREMISES,
    _counts_better(
        "flatter-counts-better",
        COMPARED,
        f"At equal KL, flatter transformers count brackets clearly better from {COMPARED} strings.",
        above(0.5),
        "half of the slope of an error in proportion to the trace, as in dyck-transfer",
    ),
    _counts_better(
        "flatter-counts-better-from-fewer",
        4,
        "At equal KL, flatter transformers count brackets better from 4 strings.",
        above(0.0),
    ),
    *(claim for claim in CLAIMS if claim.name in DAMAGED),
)


def flatten_polish_dyck(scale: Scale) -> Experiment:
    """Models of one width on Dyck strings, and heads on them that count brackets."""
    sizes, smoke = scale.sizes, scale.name == UNJUDGED
    models = SMOKE if smoke else DYCK
    counting = CountErrorQuantity(EXAMPLES, 4 if smoke else 200, sizes.seed)
    damage = WeightDamageQuantity(min(500, sizes.loss_sentences), sizes.seed + 6)
    return Experiment(
        name="flatten-polish-dyck",
        title="At equal KL, does the flattest transformer on Dyck strings transfer best?",
        question=Question.FLATNESS,
        text=(
            "Theorem 5.1 says of solutions constructed for Dyck strings that the flattest has the feature "
            "that transfers, g* = #⟩ - #⟨. In dyck-transfer trained transformers are compared at about equal "
            "loss; their KL differs, at night by up to 400 times, and its adversary is trained against g*. "
            "Here all models know the distribution to within 1e-5 nats, as in flatten-polish: from one "
            "start, noise on the weights, or small batches of sampled strings, leads to flatter models, and "
            "descent against flatness to a sharper one; each is then polished on the exact distribution to "
            "one KL. Nothing in their training refers to the task.",
            "The downstream task is the paper's, as in dyck-transfer: the features of the first bracket are "
            "frozen, and the minimum-norm linear head that fits n uniform strings is taken; its squared "
            "error in g* is computed over all strings.",
        ),
        runs=models.runs(scale, (counting, damage)),
        claims=CLAIMS_ON_DYCK,
        panels=polished_panel(
            sizes,
            "counting",
            "Errors in counting brackets, and what damage costs, against the trace at equal KL",
            (*count_error_axes(EXAMPLES), *DAMAGE[:2]),
            ("flatter-counts-better", "flatter-counts-better-from-fewer", *DAMAGED),
        ),
    )


EXPERIMENT = Design(
    flatten_polish_dyck,
    registered="3ef3c65331ce4272e38dd5f6223dbaacd92b02ed",
    seeds=seeds_at(laptop="341-352", night="361-420"),
    earlier_seeds=rounds_at(night="301-320"),
    picture=Picture(
        "counting",
        "Errors in counting brackets against the trace, of transformers of equal KL on Dyck strings",
    ),
    headline="flatter-counts-better",
)
