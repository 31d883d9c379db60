"""The axes of figures, and what their captions say about error bars and counts."""

from isoloss.experiments.scales.scale import MeasurementSizes
from isoloss.panels import Axis, Colour

OWN_TASK = (
    "GLUE's texts are beyond the laptop's language of 24 pieces and sentences of 6: of the pieces that "
    "its teacher's vocabulary cuts them into, 70 % of film reviews' and 71 % of QNLI's are none of the 24, "
    "a text has 61 or 62, and of 1,894 snippets of reviews not one is of known pieces alone. The language's "
    "own tasks have no room: what a probe of the words alone does not tell of how a sentence began is 0.07 "
    "at most, so that little of what features add can show. The experiment glue-of-causal-language probes "
    "the models on such texts all the same, beside a model that was never trained."
)
"""Counted on the stand-ins' test sets (`MovieSnippets`, `AnsweringSentences`); rooms: `isoloss describe`."""

LOSS = Axis("loss", "exact pre-training loss (nats)", "kl_error")
KL = Axis("kl", "KL(distribution || model) (nats)", "kl_error")
ACCURACY = Axis("accuracy", "linear probe accuracy", "accuracy_deviation")
TRACE = Axis("trace", "trace of the Hessian (Fisher form)", "trace_error", logarithmic=True)
STEP = Axis("step", "pre-training step", logarithmic=True)
BY_WIDTH = Colour("width", "width", ordered=True)
LOG_KL = Axis("kl", "KL(distribution || model) (nats)", "kl_error", logarithmic=True)
DESCENT_STEP = Axis("step", "step of SGD")
SIZE = Axis("width", "width", logarithmic=True)
BY_SEED = Colour("seed", "seed")


def probe_bars(sizes: MeasurementSizes) -> str:
    """Of the probe's accuracy."""
    return (
        f"Bars of accuracy: one standard deviation over {len(sizes.probe.seeds)} seeds of the probe, each on "
        f"{sizes.probe_test:,} test sentences. "
    )


def loss_bars(sizes: MeasurementSizes) -> str:
    """Of the exact loss and of its KL."""
    return (
        f"Bars of loss and KL: one standard error of KL(distribution || model) over {sizes.loss_sentences:,} "
        "sentences; the distribution's entropy, common to all models, adds the same to each. "
    )


def trace_bars(sizes: MeasurementSizes) -> str:
    """Of the trace."""
    return (
        f"Bars of the trace: one standard error over {sizes.trace_sentences:,} sentences. It is that of the "
        "Fisher information, the Hessian's own where the model has learnt the distribution (Lemma 3.2). "
    )
