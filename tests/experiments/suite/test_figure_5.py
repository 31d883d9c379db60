import numpy as np
import polars as pl
import pytest
import torch

from isoloss.experiments.claims import judge
from isoloss.experiments.languages import headline_grammar
from isoloss.experiments.suite.figure_5 import CLAIMS
from isoloss.measurements.derived_traces import EnlargedTraceQuantity
from isoloss.measurements.quantity import Subject
from isoloss.models.transformers import PreLayerNormTransformer, laptop_shape
from isoloss.objectives.masked import MaskedObjective
from isoloss.progress import silent
from isoloss.results.verdict import Verdict


def frame(width: int, seed: int, traces: list[float], accuracies: list[float]) -> pl.DataFrame:
    """Three checkpoints with one falling loss."""
    measured = ("trace_exact", "trace_paper", "projected_accuracy")
    errors = dict.fromkeys(("kl_error", *(f"{name}_error" for name in measured)), 0.01)
    counts = {f"{name}_sentences": 50 for name in ("loss", *measured)}
    told = {"run": f"{width}-{seed}", "width": width, "seed": seed, "parameters": [None, None, 3 * width]}
    falling = {"step": [10, 20, 40], "loss": [2.02, 2.01, 2.0], "kl": [0.03, 0.02, 0.01]}
    columns = {"trace_exact": traces, "trace_paper": [2 * trace for trace in traces]}
    columns |= {"accuracy": accuracies, "projected_accuracy": accuracies}
    before = {"untrained_projected_accuracy": [None, None, 0.4]}
    return pl.DataFrame({**told, **falling, **columns, **before, **errors, **counts})


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("traces", "accuracies", "expected"),
    [
        ((16.0, 8.0, 4.0), (0.5, 0.6, 0.7), Verdict.SUPPORTED),
        # The widest is sharper and worse than the narrowest, and the sharpest is the best.
        ((4.0, 16.0, 8.0), (0.6, 0.7, 0.5), Verdict.NOT_SUPPORTED),
    ],
)
def test_every_claim_can_hold_and_fail(traces, accuracies, expected) -> None:
    generator = np.random.default_rng(0)
    runs = []
    for seed in range(1, 6):
        # Not the same in every seed: correlations that never vary would give no bounds.
        middle = (accuracies[0] + accuracies[1]) / 2 if seed == 3 else accuracies[1]
        shown = (accuracies[0], middle, accuracies[2])
        for width, trace, accuracy in zip((32, 64, 128), traces, shown, strict=True):
            noise = generator.random((2, 3)) / 100
            runs.append(frame(width, seed, list(trace + noise[0]), list(accuracy + noise[1])))
    assert {judged.verdict for judged in judge(CLAIMS, runs)} == {expected}


def test_the_forms_weigh_the_embeddings_by_k_and_by_its_inverse() -> None:
    """With tied embeddings, the paper's form has the larger trace, the exact form the smaller one."""
    model = PreLayerNormTransformer(laptop_shape(16)).build(words=8, maximum_length=8, seed=0).eval()
    language = headline_grammar()
    subject = Subject("c", MaskedObjective(), {}, language)
    found = {}
    for width in (16, 64):
        for form in ("exact", "paper"):
            quantity = EnlargedTraceQuantity(laptop_shape(width), form, sentences=3, seed=1)
            drawn = quantity.draw(language, MaskedObjective(), silent)
            records = quantity.measure(model, drawn, subject, silent).records
            found[form, width] = quantity.columns(records)[f"trace_{form}"]
            groups = {r.settings.get("group"): r.value for r in records}
            found["embeddings", form, width] = groups["embeddings"]
    assert found["exact", 16] == pytest.approx(found["paper", 16], rel=1e-4)
    assert found["embeddings", "exact", 64] == pytest.approx(found["embeddings", "exact", 16] / 4, rel=1e-3)
    assert found["embeddings", "paper", 64] == pytest.approx(found["embeddings", "paper", 16] * 4, rel=1e-3)
    assert found["exact", 64] < found["exact", 16] < found["paper", 64]
    assert torch.isfinite(torch.tensor(list(found.values()))).all()
