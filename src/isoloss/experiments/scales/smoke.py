"""Seconds: everything runs, and nothing is shown about the claims."""

from itertools import product

from isoloss.corpora.documents import GivenDocuments
from isoloss.corpora.labelled_texts import GivenTask, LabelledTexts
from isoloss.corpora.prepared_corpus import CorpusRequest
from isoloss.corpora.task_splits import Shares, TaskSizes, split_by_hash
from isoloss.corpora.vocabulary import OwnVocabulary
from isoloss.experiments.chosen_languages import headline_grammar, small_hmm
from isoloss.experiments.descent_runs import DescentRuns, Descents
from isoloss.experiments.drift.adamw_clock import AdamWClockRuns
from isoloss.experiments.drift.clock import AdamWPace, Pace
from isoloss.experiments.drift.interventions import Interventions
from isoloss.experiments.drift.runs import DriftRuns
from isoloss.experiments.dyck_runs import DyckRuns, Way
from isoloss.experiments.planned_run import CorpusPlan, ReadyLanguage
from isoloss.experiments.real_text_runs import CorpusRuns, RealTextRuns, TextSizes
from isoloss.experiments.scales.scale import (
    PILOT_SEEDS,
    CausalLanguageRuns,
    ComparedRuns,
    FlatnessSettings,
    GrammarRuns,
    HiddenMarkovRuns,
    LongerRuns,
    MeasurementSizes,
    Scale,
    SizeComparison,
    students,
)
from isoloss.experiments.teacher import Teacher
from isoloss.experiments.teacher_plan import GivenProse, TeacherPlan
from isoloss.languages.dyck import dyck
from isoloss.measurements.fine_tuning_run import FineTuningSettings
from isoloss.measurements.linear_probe import ProbeSettings
from isoloss.models.lstm import LSTM
from isoloss.models.shapes import Shape, laptop_shape
from isoloss.models.transformers import GPT2Transformer, PreLayerNormTransformer
from isoloss.objectives.many_masks import BertReplacement, ManyMasksObjective
from isoloss.objectives.masked import OneMaskedWord
from isoloss.pretraining.adamw import AdamW
from isoloss.pretraining.adversarial import Adversarial
from isoloss.pretraining.flatness_regularised import FlatnessRegularised, Sharpened
from isoloss.pretraining.muon import Muon
from isoloss.pretraining.peer_optimisers import SOAP, Lion
from isoloss.pretraining.sam import SAM
from isoloss.pretraining.sgd import SGD
from isoloss.pretraining.sophia import Sophia
from isoloss.pretraining.specification import log_spaced_steps

COMPARED = ComparedRuns(
    size=0,
    small=PreLayerNormTransformer(Shape(16, 2, 1, 64)),
    adversary=Adversarial((1.5, 2.5), examples=8, optimiser=AdamW(warm_up_steps=10)),
    peers=(
        ("Muon", Muon(rest=AdamW(warm_up_steps=10))),
        ("Lion", Lion(warm_up_steps=10)),
        ("SOAP", SOAP(warm_up_steps=10)),
        ("Sophia", Sophia(warm_up_steps=10)),
        ("flatness-regularised", FlatnessRegularised(optimiser=AdamW(warm_up_steps=10))),
    ),
    steps=20,
    checkpoint_steps=(10, 20),
    saturated_from=10,
)

LONGER = LongerRuns(
    steps=60,
    checkpoint_steps=(20, 40, 60),
    fine_tuning=FineTuningSettings(seeds=(0, 1), epochs=2, warm_up_steps=2),
    train=64,
    validation=32,
    test=64,
)

SIZES_COMPARED = SizeComparison(
    tuple(PreLayerNormTransformer(laptop_shape(width)) for width in (16, 32)), laptop_shape(32), sentences=16
)

FLATNESS = FlatnessSettings(
    trace_sentences=16,
    gradient_sentences=16,
    eigenvalue_sentences=8,
    ascent_sentences=16,
    noise_sentences=16,
)

HIDDEN_MARKOV = HiddenMarkovRuns(
    language=ReadyLanguage(small_hmm()),
    tasks=("state-3", "state-5"),
    architectures=(LSTM(8, 2), LSTM(16, 2)),
    update_rule=AdamW(warm_up_steps=10),
    batch_size=32,
    steps=40,
    checkpoint_steps=log_spaced_steps(10, 40),
    saturated_from=20,
)

PROSE = " ".join(
    f"The {noun} {verb}." for noun in ("cat", "dog", "bird", "child") for verb in ("sleeps", "runs", "sings")
)

TEACHER = Teacher(
    words=40,
    length=6,
    architecture=GPT2Transformer(Shape(16, 2, 1, 32), dropout=0.0),
    update_rule=AdamW(learning_rate=1e-2, warm_up_steps=10),
    steps=40,
    batch_size=32,
)

_PLAN = TeacherPlan(TEACHER, GivenProse(PROSE), words=16)

CAUSAL_LANGUAGE = CausalLanguageRuns(
    language=_PLAN,
    tasks=("opening-4", "opening-2"),
    architectures=students([PreLayerNormTransformer(laptop_shape(width)) for width in (16, 32)], _PLAN),
    update_rule=AdamW(warm_up_steps=10),
    batch_size=32,
    steps=40,
    checkpoint_steps=log_spaced_steps(10, 40),
    saturated_from=20,
    evaluated=OneMaskedWord(),
)

DESCENTS = Descents(
    grammar=DescentRuns(16, SGD(0.01), batch_size=32, steps=20, checkpoint_steps=(1, 10, 20)),
    hidden_markov=DescentRuns(8, SGD(0.01), batch_size=32, steps=20, checkpoint_steps=(1, 10, 20)),
)

DRIFT = DriftRuns(
    widths=(16,),
    paces=(Pace(0.4, 8), Pace(0.2, 8)),
    times=(0.01, 0.02, 0.03),
    control_checkpoints=2,
    rate_sentences=8,
)

ADAMW_CLOCK = AdamWClockRuns(
    width=16,
    seeds=(3, 4),
    paces=(AdamWPace(4e-3, 8), AdamWPace(4e-3, 16)),
    times=(4e-5, 8e-5),
    changed=AdamWPace(4e-3, 8),
    sgd=Pace(0.4, 8),
    sgd_time=0.02,
    arm_seeds=1,
)

INTERVENTIONS = Interventions(
    width=16,
    seeds=(3, 4),
    pace=Pace(0.4, 8),
    time=0.02,
    regularised_batch=8,
    sharpened=Sharpened((1.5, 2.5), optimiser=SGD(0.1, warm_up_share=0.0)),
    quieter=4,
)

DYCK = DyckRuns(
    language=dyck(6, 0.5),
    architecture=PreLayerNormTransformer(laptop_shape(16)),
    seeds=(3, 4),
    rule=AdamW(warm_up_steps=10),
    batch_size=16,
    parting=10,
    steps=20,
    others=(
        Way("flattened", FlatnessRegularised(optimiser=AdamW(warm_up_steps=5)), 16),
        Way("adversary", Adversarial((0.6, 0.7), examples=8, optimiser=AdamW(warm_up_steps=5)), 16),
    ),
    averaging_horizon=5,
    samples=(4, 8),
    compared=8,
    draws=4,
)

_WORDS = 97
"""Of 100 pieces all but [PAD], [CLS] and [MASK]."""


def _documents() -> tuple[str, ...]:
    people, verbs = ("a cat", "the dog", "one nightingale", "his grandchild"), ("saw", "liked", "forgot")
    films = ("the film", "this documentary", "a song")
    times = ("today", "in may", "at noon", "last week", "every evening")
    return tuple(
        ". ".join(f"{person} {verb} {film} {time}" for verb, film in product(verbs, films)) + "."
        for person, time in product(people, times)
    )


def _task(name: str, *, pairs: bool = False) -> GivenTask:
    films = [
        f"{person} and {film}" for person, film in product(("cat", "dog", "bird"), ("film", "song", "play"))
    ]
    words = (("left", 0), ("saw no", 0), ("liked", 1), ("saw", 1))
    examples = [(f"the {film} they {word}", label) for film, (word, label) in product(films, words)]
    texts, labels = zip(*examples, strict=True)
    seconds = tuple(text.partition("they")[2] for text in texts) if pairs else None
    given = LabelledTexts(texts, seconds, labels)
    return GivenTask(split_by_hash(name, ("no", "yes"), given, Shares(0.2, 0.3)))


def _runs_on_text(name: str) -> CorpusRuns:
    request = CorpusRequest(
        GivenDocuments(_documents()), OwnVocabulary(100), length=24, validation_share=0.25
    )
    return CorpusRuns(
        corpus=CorpusPlan(request, _WORDS),
        corpus_name=name,
        architecture=PreLayerNormTransformer(laptop_shape(16)),
        objective=ManyMasksObjective(replacement=BertReplacement(_WORDS)),
        update_rule=AdamW(warm_up_steps=5),
        batch_size=8,
        steps=10,
        checkpoint_steps=(5, 10),
        measured_from=5,
    )


REAL_TEXT = RealTextRuns(
    followed=_runs_on_text("a dozen texts made up here"),
    compared=_runs_on_text("a dozen texts made up here"),
    sam=SAM(),
    sentiment=_task("SST-2 form, made up"),
    questions=_task("QNLI form, made up", pairs=True),
    entailment=_task("RTE form, made up", pairs=True),
    sizes=TextSizes(
        loss_sequences=16,
        trace_sequences=8,
        texts=TaskSizes(16, 8, 8),
        probe=ProbeSettings(seeds=(0, 1), epochs=2, batch_size=8),
        fine_tuning=FineTuningSettings(seeds=(0, 1), epochs=1, warm_up_steps=1, batch_size=8),
    ),
)


def smoke() -> Scale:
    """Two tiny models, two seeds, seconds: shows that everything runs, and nothing about the claims."""
    return Scale(
        name="smoke",
        seeds=(1, 2),
        pilot_seeds=PILOT_SEEDS,
        sizes=MeasurementSizes(
            loss_sentences=64,
            trace_sentences=64,
            probe_train=256,
            probe_validation=64,
            probe_test=256,
            probe=ProbeSettings(epochs=5),
        ),
        grammar=GrammarRuns(
            language=ReadyLanguage(headline_grammar()),
            tasks=("prefix-4", "prefix-8", "prefix-8"),
            architectures=tuple(PreLayerNormTransformer(laptop_shape(width)) for width in (16, 32)),
            update_rule=AdamW(warm_up_steps=10),
            batch_size=32,
            steps=40,
            checkpoint_steps=log_spaced_steps(10, 40),
            saturated_from=20,
        ),
        compared=COMPARED,
        longer=LONGER,
        sizes_compared=SIZES_COMPARED,
        flatness=FLATNESS,
        hidden_markov=HIDDEN_MARKOV,
        causal_language=CAUSAL_LANGUAGE,
        descents=DESCENTS,
        drift=DRIFT,
        adamw_clock=ADAMW_CLOCK,
        interventions=INTERVENTIONS,
        dyck=DYCK,
        real_text=REAL_TEXT,
    )
