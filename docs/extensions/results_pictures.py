"""Of the results that are shipped, what the documentation shows."""

from typing import NamedTuple


class Picture(NamedTuple):
    """A panel of an experiment's page, and what it shows."""

    panel: str
    shows: str


PICTURES = {
    "figure-1": Picture("steps", "Loss, trace of the Hessian and accuracy over pre-training steps"),
    "figure-2": Picture("pcfg-c", "Loss and accuracy over pre-training steps"),
    "figure-3": Picture("hmm-10", "Loss and accuracy over widths, on sentences of an HMM"),
    "figure-4": Picture("pcfg-c", "Loss, trace and accuracy along SGD"),
    "figure-5": Picture(
        "enlarged", "Accuracy over the trace of models of several widths in one parameter space"
    ),
    "figure-8": Picture("pcfg-a", "Loss and accuracy over widths, on another task"),
    "drift": Picture("clock-grammar-32", "Trace of the Hessian and accuracy over the drift's time"),
    "drift-limits": Picture(
        "limit-learning-rate",
        "Trace of the Hessian over the drift's time at rates that are higher and higher",
    ),
    "adamw-clock": Picture(
        "clock", "Trace of the Hessian and sum of the roots of its diagonal over the time of AdamW's drift"
    ),
    "flatness-interventions": Picture(
        "accuracy-over-trace", "Accuracy over the trace of models made flatter and sharper at one loss"
    ),
    "dyck-transfer": Picture(
        "transfer", "Error in counting brackets over the trace of transformers trained on Dyck strings"
    ),
    "other-distributions": Picture("trace", "Accuracy where a probe was not trained, over the trace"),
    "roots-or-trace": Picture(
        "roots", "Accuracy over the sum of the roots of the Fisher information's diagonal, and over its trace"
    ),
    "lazy-to-rich": Picture(
        "steps", "Divergence, trace and accuracy over steps, from weights that start small and large"
    ),
    "figure-9": Picture(
        "pcfg-b-steps", "What models have not learnt of the distribution, over pre-training steps"
    ),
}
"""The experiments' pictures; what is not here is told in a table alone."""
