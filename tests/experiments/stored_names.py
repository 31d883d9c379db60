"""Names under which runs and measurements are stored; run as a script, writes tests/data/stored-names.txt.

Changing one of them on purpose makes all its stored results be computed again.
"""

from dataclasses import replace
from pathlib import Path

from isoloss.corpora.glue import GlueTask
from isoloss.corpora.labelled_texts import TaskSizes
from isoloss.experiments.experiment import PlannedReference
from isoloss.experiments.languages import ReadyLanguage
from isoloss.experiments.planned_run import Continued, quantity_digest
from isoloss.experiments.teacher import GivenProse, PiecesOfProse
from isoloss.languages.dyck import dyck
from isoloss.languages.pcfg import pcfg
from isoloss.languages.random_grammar import laptop_grammar
from isoloss.languages.random_hmm import random_hmm
from isoloss.measurements.accuracy import AccuracyQuantity, FineTuning, LinearProbe, Standardised
from isoloss.measurements.corpus_loss import CorpusLossQuantity
from isoloss.measurements.derived_traces import EnlargedTraceQuantity
from isoloss.measurements.exact_loss import ExactLossQuantity
from isoloss.measurements.fine_tuning import FineTuningSettings
from isoloss.measurements.linear_probe import ProbeSettings
from isoloss.measurements.on_sentences.gradients import GradientNormQuantity, RootFisherQuantity
from isoloss.measurements.on_sentences.hessian import TopEigenvalueQuantity
from isoloss.measurements.on_sentences.loss_rise import AscentSharpnessQuantity, NoiseSensitivityQuantity
from isoloss.measurements.on_sentences.traces import NormalisedTraceQuantity, TraceQuantity
from isoloss.measurements.references import (
    BeforeTraining,
    ControlQuantity,
    LookupTableReference,
    MajorityReference,
    TaskReference,
    TextControls,
    Untrained,
    Words,
)
from isoloss.measurements.student_task_texts import StudentTaskTexts
from isoloss.measurements.task_sentences import FeatureMeanQuantity, TaskSentences
from isoloss.measurements.task_texts import TaskTexts
from isoloss.models.lstm import LSTM
from isoloss.models.transformers import GPT2Transformer, PostLayerNormTransformer, laptop_shape
from isoloss.objectives.masked import MaskedObjective
from isoloss.objectives.next_word import NextWordObjective
from isoloss.pretraining.descent import SGD, AdamW
from isoloss.pretraining.flatness_regularised import SAM
from isoloss.pretraining.other_optimisers import SOAP, Muon, Sophia
from isoloss.pretraining.specification import Compute, settings_as_json
from norm_experiments import RUN

FILE = Path(__file__).parents[1] / "data" / "stored-names.txt"
LANGUAGES = {
    "grammar": pcfg(laptop_grammar(0)),
    "dyck": dyck(8),
    "hmm": random_hmm(words=6, states=4, blocks=2, length=3, seed=0),
}
GRAMMAR = ReadyLanguage(LANGUAGES["grammar"])
LENGTH = {"steps": 1000, "batch_size": 32, "checkpoint_steps": (500, 1000), "saturated_from": 500}
PLAIN = replace(RUN, language=GRAMMAR, update_rule=AdamW(), labels=(), **LENGTH)
RUNS = {
    "plain": PLAIN,
    "post layer norm": replace(PLAIN, architecture=PostLayerNormTransformer(laptop_shape(16))),
    "lstm": replace(PLAIN, architecture=LSTM(16, 2)),
    "next word": replace(
        PLAIN, architecture=GPT2Transformer(laptop_shape(16)), objective=NextWordObjective()
    ),
    "another seed": replace(PLAIN, seed=901),
    "sgd": replace(PLAIN, update_rule=SGD()),
    "sgd with weight decay": replace(PLAIN, update_rule=SGD(weight_decay=0.01)),
    "sam": replace(PLAIN, update_rule=SAM(optimiser=AdamW())),
    "muon": replace(PLAIN, update_rule=Muon(rest=AdamW())),
    "sophia": replace(PLAIN, update_rule=Sophia()),
    "soap": replace(PLAIN, update_rule=SOAP()),
    "bfloat16": replace(PLAIN, compute=Compute("bfloat16")),
    "micro-batches": replace(PLAIN, compute=Compute(micro_batch=8)),
    "continued": replace(PLAIN, seed=901, continues=Continued(PLAIN, 1000)),
    "averaged": replace(PLAIN, averaging_horizon=200),
}
SENTENCES = TaskSentences("prefix-4", 100, 50, 50, 1)
PROBE = AccuracyQuantity(SENTENCES, LinearProbe(ProbeSettings()))
TEXTS = TaskTexts(GlueTask("sst2"), TaskSizes(100, 50, 50))
STUDENT_TEXTS = StudentTaskTexts(TEXTS.task, TEXTS.sizes, PiecesOfProse(GivenProse("a text"), 50))
TEXT_PROBE = AccuracyQuantity(STUDENT_TEXTS, LinearProbe(ProbeSettings()))
ADAPTED = AccuracyQuantity(SENTENCES, LinearProbe(ProbeSettings(), Standardised()))
QUANTITIES = (
    AscentSharpnessQuantity(64, 1),
    CorpusLossQuantity(64, 1),
    EnlargedTraceQuantity(laptop_shape(32), "exact", 64, 1),
    ExactLossQuantity(64, 1),
    AccuracyQuantity(SENTENCES, FineTuning(FineTuningSettings())),
    GradientNormQuantity(64, 1),
    NoiseSensitivityQuantity((0.1,), 64, 1),
    NormalisedTraceQuantity(64, 1),
    PROBE,
    RootFisherQuantity(64, 1),
    TopEigenvalueQuantity(64, 1),
    TraceQuantity(64, 1),
    ControlQuantity(TEXT_PROBE, BeforeTraining(), "accuracy_untrained"),
    ADAPTED,
    FeatureMeanQuantity(64, 1),
    AccuracyQuantity(replace(SENTENCES, shift="skewed roots"), LinearProbe(ProbeSettings())),
    ControlQuantity(ADAPTED, BeforeTraining(), "untrained"),
    AccuracyQuantity(TEXTS, LinearProbe(ProbeSettings())),
    AccuracyQuantity(TEXTS, FineTuning(FineTuningSettings())),
    TEXT_PROBE,
)
REFERENCES = (
    TaskReference(PROBE),
    LookupTableReference(ExactLossQuantity(64, 1), (PROBE,)),
    ControlQuantity(PROBE, Words(), "words_accuracy"),
    ControlQuantity(PROBE, Untrained(PLAIN.architecture), "untrained_accuracy"),
    TextControls(TEXT_PROBE, "accuracy"),
    MajorityReference(TEXTS.task, TEXTS.sizes),
)


def stored_names() -> str:
    """One line each: the first digits of the digest, and what it identifies."""
    language = LANGUAGES["grammar"]
    lines = [f"{each.digest[:16]} language {name}" for name, each in LANGUAGES.items()]
    lines += [f"{run.folder(Path()).name} run {name}" for name, run in RUNS.items()]
    for quantity in QUANTITIES:
        digest = quantity_digest(quantity, language.digest, MaskedObjective())
        lines.append(f"{digest} measurement {settings_as_json(quantity)['is']}")
    for reference in REFERENCES:
        planned = PlannedReference("reference", ReadyLanguage(language), reference)
        lines.append(f"{planned.digest} reference {settings_as_json(reference)['is']}")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    FILE.write_text(stored_names())
