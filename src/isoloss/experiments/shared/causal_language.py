"""The runs on a causal model's language at each scale, and the teacher whose language it is."""

from collections.abc import Sequence
from dataclasses import replace

from isoloss.experiments.languages import LanguagePlan
from isoloss.experiments.shared.language_runs import GPU_LENGTHS, LanguageRuns, at_scales, laptop_transformers
from isoloss.experiments.teacher import (
    GivenProse,
    GutenbergBooks,
    HubPlan,
    Teacher,
    TeacherPlan,
    TeachersLanguage,
)
from isoloss.models.causal_language import ModelSource
from isoloss.models.transformers import TABLE_3, GPT2Transformer, PreLayerNormTransformer, Shape, laptop_shape
from isoloss.objectives.masked import OneMaskedWord
from isoloss.objectives.tokens import FIRST_WORD
from isoloss.pretraining.descent import AdamW
from isoloss.pretraining.specification import log_spaced_steps

CausalLanguageRuns = LanguageRuns[LanguagePlan, PreLayerNormTransformer]
"""Transformers on a causal model's language, with all of its teacher's tokens, so that they read real text
too. Its own tasks stand beside the paper's QNLI and SST-2. The exact loss is over one word a sentence: a
distribution takes a pass over every word."""


def students(
    models: Sequence[PreLayerNormTransformer], plan: TeachersLanguage
) -> tuple[PreLayerNormTransformer, ...]:
    """The models with room for all of the teacher's tokens."""
    tokens = plan.whole_tokenizer.pieces + FIRST_WORD
    return tuple(replace(model, tokens=tokens) for model in models)


TEACHER = Teacher(
    words=300,
    length=6,
    architecture=GPT2Transformer(Shape(32, 2, 1, 128), dropout=0.0, attention="eager"),
    steps=300,
)
"""Half a minute of one core, most of it for reading the text."""

STUDENTS_LANGUAGE = TeacherPlan(TEACHER, GutenbergBooks(), words=24)

LAPTOP = CausalLanguageRuns(
    language=STUDENTS_LANGUAGE,
    tasks=("opening-4", "opening-2"),
    architectures=students(laptop_transformers((32, 48)), STUDENTS_LANGUAGE),
    update_rule=AdamW(3e-3, warm_up_steps=500),
    batch_size=512,
    steps=4000,
    checkpoint_steps=(1000, 1414, *log_spaced_steps(2000, 4000, per_doubling=5)),
    saturated_from=2000,
    evaluated=OneMaskedWord(),
    averaging_horizon=200,
)
"""A language that is easy enough for students to come near it, and large batches; docs/pilots.md has why."""

NIGHT = replace(
    LAPTOP,
    architectures=students(laptop_transformers((32, 64, 128)), STUDENTS_LANGUAGE),
    batch_size=128,
    steps=6000,
    checkpoint_steps=(1500, *log_spaced_steps(2000, 6000, per_doubling=5)),
    saturated_from=2000,
)
"""Half more than the laptop's steps, and batches for which a night has the time at width 128."""

OPT = HubPlan(ModelSource("facebook/opt-125m"))

PAPER = CausalLanguageRuns(
    language=OPT,
    tasks=("opening-4", "opening-2"),
    architectures=students([PreLayerNormTransformer(shape) for shape in TABLE_3], OPT),
    update_rule=AdamW(warm_up_steps=1000),
    batch_size=4096,
    steps=120_000,
    checkpoint_steps=log_spaced_steps(7_500, 120_000, per_doubling=2),
    saturated_from=30_000,
    evaluated=OneMaskedWord(),
)
"""A.1, A.4 and A.5: OPT-125M from a hub, its 2,000 most frequent tokens, sentences of 24. The paper gives no
steps: here those of the grammar."""

GPU = replace(
    LAPTOP,
    architectures=students(
        [PreLayerNormTransformer(TABLE_3[0]), PreLayerNormTransformer(TABLE_3[2])], STUDENTS_LANGUAGE
    ),
    update_rule=PAPER.update_rule,
    batch_size=PAPER.batch_size,
    averaging_horizon=None,
    **GPU_LENGTHS,
)
"""The laptop's language, which students come to know: sentences of 24 tokens of OPT or SmolLM2 would take
more than the four hours to draw, 5e7 a run. Two of the paper's sizes, untried."""

PROSE = " ".join(
    f"The {noun} {verb}." for noun in ("cat", "dog", "bird", "child") for verb in ("sleeps", "runs", "sings")
)

TINY_TEACHER = Teacher(
    words=40,
    length=6,
    architecture=GPT2Transformer(Shape(16, 2, 1, 32), dropout=0.0),
    update_rule=AdamW(learning_rate=1e-2, warm_up_steps=10),
    steps=40,
    batch_size=32,
)

TINY_LANGUAGE = TeacherPlan(TINY_TEACHER, GivenProse(PROSE), words=16)

SMOKE = replace(
    LAPTOP,
    language=TINY_LANGUAGE,
    architectures=students(
        [PreLayerNormTransformer(laptop_shape(width)) for width in (16, 32)], TINY_LANGUAGE
    ),
).shrunk()

CAUSAL_LANGUAGE = at_scales(SMOKE, LAPTOP, NIGHT, GPU, PAPER)
