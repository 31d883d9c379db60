"""The three scales: seconds, minutes on a laptop, and the paper's own."""

from isoloss.experiments import (
    causal_language_runs,
    compared_runs,
    descent_runs,
    flatness_settings,
    hidden_markov_runs,
    longer_runs,
    real_text_settings,
    size_comparison,
)
from isoloss.experiments.drift import scales as drift_scales
from isoloss.experiments.paper_languages import paper_pcfg
from isoloss.experiments.planned_run import ReadyLanguage
from isoloss.experiments.scale import GrammarRuns, MeasurementSizes, Scale, ScaleName
from isoloss.languages.pcfg import PCFG, pcfg
from isoloss.languages.random_grammar import laptop_grammar
from isoloss.measurements.linear_probe import ProbeSettings
from isoloss.models.shapes import TABLE_3, laptop_shape
from isoloss.models.transformers import PreLayerNormTransformer
from isoloss.pretraining.adamw import AdamW
from isoloss.pretraining.schedule import log_spaced_steps

PILOT_SEEDS = (900, 901)
LANGUAGE_SEED = 5


def scale_named(name: ScaleName) -> Scale:
    """The scale of that name."""
    match name:
        case "smoke":
            return smoke()
        case "laptop":
            return laptop()
        case "paper":
            return paper()


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
            language=ReadyLanguage(laptop_language()),
            tasks=("prefix-8", "prefix-4", "prefix-2"),
            architectures=tuple(PreLayerNormTransformer(laptop_shape(width)) for width in (16, 32)),
            update_rule=AdamW(warm_up_steps=10),
            batch_size=32,
            steps=40,
            checkpoint_steps=log_spaced_steps(10, 40),
            saturated_from=20,
        ),
        compared=compared_runs.SMOKE,
        longer=longer_runs.SMOKE,
        sizes_compared=size_comparison.SMOKE,
        flatness=flatness_settings.SMOKE,
        hidden_markov=hidden_markov_runs.SMOKE,
        causal_language=causal_language_runs.SMOKE,
        descents=descent_runs.SMOKE,
        drift=drift_scales.SMOKE,
        real_text=real_text_settings.SMOKE,
    )


def laptop() -> Scale:
    """Three sizes, three seeds; Figure 1 within ten minutes on two cores.

    Chosen on runs with PILOT_SEEDS. The language: of a hundred random ones of a few kinds, that whose
    loss saturated soonest among those whose task neither the words alone nor the majority settle. Widths
    and steps: what fits. The step of saturation: from there on the pilot runs' losses, all sizes and
    later steps, lay within 0.53 % of each other, half of what the claim of one loss allows. The probe:
    two training sentences for each feature of the largest model, as the paper's largest has, and
    minibatches small enough that its heads converge.

    Not fresh in every sense: a first language was given up after runs with seeds 1 to 3 too had shown its
    loss too far from saturated, and this one's runs were measured once before on larger sets, which were
    then cut for time. No statistic or threshold was changed after either.
    """
    return Scale(
        name="laptop",
        seeds=(1, 2, 3),
        pilot_seeds=PILOT_SEEDS,
        sizes=MeasurementSizes(
            loss_sentences=1000,
            trace_sentences=1000,
            probe_train=1000,
            probe_validation=500,
            probe_test=5000,
            probe=ProbeSettings(batch_size=32),
        ),
        grammar=GrammarRuns(
            language=ReadyLanguage(laptop_language()),
            tasks=("prefix-8", "prefix-4", "prefix-2"),
            architectures=tuple(
                # On a CPU plain attention trains these small models a tenth faster than the fused kernel.
                PreLayerNormTransformer(laptop_shape(width), attention="eager")
                for width in (32, 48, 64)
            ),
            update_rule=AdamW(warm_up_steps=500),
            batch_size=128,
            steps=4000,
            checkpoint_steps=(500, 1000, 1414, 2000, 2828, 4000),
            saturated_from=1414,
        ),
        compared=compared_runs.LAPTOP,
        longer=longer_runs.LAPTOP,
        sizes_compared=size_comparison.LAPTOP,
        flatness=flatness_settings.LAPTOP,
        hidden_markov=hidden_markov_runs.LAPTOP,
        causal_language=causal_language_runs.LAPTOP,
        descents=descent_runs.LAPTOP,
        drift=drift_scales.LAPTOP,
        real_text=real_text_settings.LAPTOP,
    )


def paper() -> Scale:
    """The paper's settings (A.1, A.4, A.5, B.1, Table 3).

    The paper gives no number of steps in its published version; its preprint says more than 30,000 until
    the loss converges, so saturation counts from 30,000 here and training goes on to 120,000. The paper
    shows one run a size; three seeds are run here. The paper's loss is over 10^6 sentences, one mask each;
    here over 10^6 masks, every position of 58,824 sentences of 17 words on average. Task A asks for the
    symbol of the whole sentence: only 0.2 % of the sentences have all 32 words.
    """
    return Scale(
        name="paper",
        seeds=(1, 2, 3),
        pilot_seeds=PILOT_SEEDS,
        sizes=MeasurementSizes(
            loss_sentences=58_824,
            trace_sentences=10_000,
            probe_train=80_000,
            probe_validation=10_000,
            probe_test=10_000,
        ),
        grammar=GrammarRuns(
            language=ReadyLanguage(paper_pcfg()),
            tasks=("root", "prefix-16", "prefix-8"),
            architectures=tuple(PreLayerNormTransformer(shape) for shape in TABLE_3),
            update_rule=AdamW(warm_up_steps=1000),
            batch_size=4096,
            steps=120_000,
            checkpoint_steps=log_spaced_steps(7_500, 120_000, per_doubling=2),
            saturated_from=30_000,
        ),
        compared=compared_runs.PAPER,
        longer=longer_runs.PAPER,
        sizes_compared=size_comparison.PAPER,
        flatness=flatness_settings.PAPER,
        hidden_markov=hidden_markov_runs.PAPER,
        causal_language=causal_language_runs.PAPER,
        descents=descent_runs.PAPER,
        drift=drift_scales.PAPER,
        real_text=real_text_settings.PAPER,
    )


def laptop_language() -> PCFG:
    """The language of the smoke and laptop scales: two roots, length 8, 8 words."""
    return pcfg(laptop_grammar(LANGUAGE_SEED))
