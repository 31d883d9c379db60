"""The paper's models, training and measurements beside a scale's own, a row a setting."""

from isoloss.experiments.experiment import SettingsGroup, settings_group
from isoloss.experiments.scale import Scale
from isoloss.experiments.shared.language_runs import width_of
from isoloss.measurements.fine_tuning_run import FineTuningSettings
from isoloss.models.transformers import WHOLE_TOKENIZER, PreLayerNormTransformer, Shape, parameter_count

BERT_POSITIONS = 512
"""BERT's longest input (Devlin et al. 2019)."""


def parameters_with_bert(shape: Shape) -> int:
    """Of a `PreLayerNormTransformer` with BERT's vocabulary and positions; the paper names its sizes by them.

    >>> parameters_with_bert(Shape(64, 1, 1, 256))
    2071354
    """
    model = PreLayerNormTransformer(shape, tokens=WHOLE_TOKENIZER)
    return parameter_count(model, words=1, maximum_length=BERT_POSITIONS - 1)


def transformer_settings(scale: Scale) -> SettingsGroup:
    """Table 3."""
    shapes = [model.shape for model in scale.grammar.architectures]
    counts = [parameters_with_bert(shape) / 1e6 for shape in shapes]
    return settings_group(
        "Transformers (A.4, Table 3)",
        ("width × layers", "Table 3", ", ".join(f"{shape.width} × {shape.layers}" for shape in shapes)),
        (
            "names",
            "2M to 730M",
            f"{counts[0]:.1f}M to {counts[-1]:.0f}M with BERT's {WHOLE_TOKENIZER:,} tokens",
            "the paper counts the tokens of its tokenizer; models here have the language's own words; "
            f"--tokens {WHOLE_TOKENIZER} gives them all",
        ),
        (
            "layer norm",
            "after each block (B.4)",
            "before each block",
            "the authors trained so (Izsak et al. 2021); the other is there too",
        ),
    )


def training_settings(scale: Scale) -> SettingsGroup:
    """AdamW (A.5)."""
    runs = scale.grammar
    rule = runs.update_rule
    return settings_group(
        "Pre-training (A.5)",
        ("AdamW's rate", "1e-3, constant", f"{rule.learning_rate:g}, constant"),
        (
            "warm-up",
            "1,000 steps (A.5); a proportion of 0.06 (A.4)",
            f"{rule.warm_up_steps:,} steps",
            "a share of steps cannot be taken of an unknown number of them",
        ),
        ("betas", "0.9, 0.98", f"{rule.first_beta:g}, {rule.second_beta:g}"),
        ("dropout, weight decay", "0.1, 0.01", f"{runs.architectures[0].dropout:g}, {rule.weight_decay:g}"),
        ("batch", "4,096", f"{runs.batch_size:,}"),
        (
            "steps",
            "more than 30,000, until the loss converges (preprint)",
            f"{runs.steps:,}, saturated from {runs.saturated_from:,}",
            "the published paper gives none",
        ),
        (
            "masks",
            "15 % on real text; not said for generated languages",
            "one a sentence",
            "the loss that is defined (Section 2.1); the released pipeline masks 15 % in five copies: "
            "`ablations` tells whether it matters",
        ),
        ("runs a size", "one", f"{len(scale.seeds)}", "an interval needs several"),
    )


def adversary_settings(scale: Scale) -> SettingsGroup:
    """The adversarial algorithm (A.5)."""
    rule, size = scale.compared.adversary, scale.grammar.architectures[scale.compared.size]
    small = scale.compared.small.shape
    small_count = parameters_with_bert(small) / 1e6
    low, high = rule.loss_window
    return settings_group(
        "The adversary (A.5, Table 1)",
        ("model", "235M", f"width {width_of(size)}"),
        (
            "small model beside it",
            "9M (preprint)",
            f"width {small.width} × {small.layers}: {small_count:.1f}M",
            f"the nearest of Tables 3 and 4 with BERT's {WHOLE_TOKENIZER:,} tokens",
        ),
        (
            "tasks attacked",
            "the downstream tasks",
            f"{', '.join(rule.tasks)}, one a step in turn",
            "the tasks of Tables 1 and 2; by default the language's own list, which leaves out rare ones",
        ),
        (
            "strength λ",
            "not given",
            f"{rule.strength:g} up to a loss of {low:.3f} nats, falling to 0 at {high:.3f}",
            "so that it costs no loss: 0.02 to 0.05 nats above the entropy; untried at this scale",
        ),
        (
            "D1 and D2",
            "disjoint subsets of the training examples; sizes not given",
            f"{rule.examples} each, fresh at every step",
            "the paper leaves it open",
        ),
    )


def measurement_settings(scale: Scale) -> SettingsGroup:
    """Loss and trace (A.5, B.1)."""
    sizes = scale.sizes
    return settings_group(
        "Loss and trace (A.5, B.1)",
        (
            "loss",
            "entropy + KL from the exact distribution, 1e6 sentences",
            f"the same, every position of {sizes.loss_sentences:,} sentences",
            "1e6 masks, whose distributions come a sentence at a time",
        ),
        ("contexts of the trace", "10,000", f"{sizes.trace_sentences:,} sentences, a mask each"),
        (
            "labels a context",
            "50 drawn from the model",
            "±1 signs on the columns of diag(√p) - p√pᵀ",
            "the same mean with bounded variance",
        ),
    )


def probe_settings(scale: Scale) -> SettingsGroup:
    """The linear probe (A.5)."""
    sizes, probe = scale.sizes, scale.sizes.probe
    return settings_group(
        "Linear probe (A.5)",
        (
            "examples",
            "100,000",
            f"{sizes.probe_train:,} to train, {sizes.probe_validation:,} to validate, "
            f"{sizes.probe_test:,} to test",
        ),
        ("features", "all words' vectors, concatenated", "the same, [CLS] left out"),
        (
            "projection",
            "tried, to 512 dimensions; “does not affect the final performance”",
            "none; where sizes are compared, to the narrowest's dimension too",
            "`figure-3` tells whether accuracy depends on it, `ablations` of the released probe",
        ),
        ("AdamW's rate, epochs", "1e-3, 100", f"{probe.learning_rate:g}, {probe.epochs}"),
        ("minibatch", "not given", f"{probe.batch_size}", "the released probe has 512, on other features"),
        ("seeds", "5", f"{len(probe.seeds)}"),
    )


def fine_tuning_settings(_scale: Scale) -> SettingsGroup:
    """Fine-tuning (A.5)."""
    settings = FineTuningSettings()
    return settings_group(
        "Fine-tuning (A.5)",
        ("AdamW's rate", "1e-4", f"{settings.learning_rate:g}"),
        ("warm-up, epochs", "200 steps, 10", f"{settings.warm_up_steps} steps, {settings.epochs}"),
        ("minibatch", "not given", f"{settings.batch_size}", "that of Devlin et al. 2019"),
        ("seeds", "5", f"{len(settings.seeds)}"),
    )
