"""Runs' folders written by hand, in milliseconds."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from isoloss.files import file_digest
from isoloss.results.measurement_store import measurements_at
from isoloss.results.record import Record
from isoloss.results.store import json_digest, write_sealed

SPECIFICATION = {
    "is": "PretrainingSpecification",
    "architecture": {"is": "PreLayerNormTransformer", "shape": {"is": "Shape", "width": 32, "layers": 2}},
    "update_rule": {"is": "AdamW", "learning_rate": 0.001, "warm_up_steps": 10},
    "language_digest": "a0c8",
    "steps": 40,
    "batch_size": 32,
    "seed": 1,
    "checkpoint_steps": [10, 20, 40],
    "objective": {"is": "MaskedObjective"},
    "start_from": None,
}

Sentences = Mapping[int, Sequence[float]]
"""A value per sentence, by step."""

LOSS: Sentences = {10: [2.0, 2.2, 2.4], 40: [1.0, 1.2, 1.4]}


def write_run(
    output: Path,
    name: str,
    *,
    width: int = 32,
    seed: int = 1,
    rule: str = "AdamW",
    language: str = "a0c8",
    steps: Sequence[int] = (10, 20, 40),
    loss: Sentences | None = None,
    trace: Sentences | None = None,
    kept: bool = True,
) -> Path:
    """A run with checkpoints at `steps`, its loss measured on the set on-loss, its trace on on-trace."""
    folder = output / "runs" / name
    folder.mkdir(parents=True)
    architecture = {"is": "PreLayerNormTransformer", "shape": {"is": "Shape", "width": width, "layers": 2}}
    changed = {"architecture": architecture, "seed": seed, "language_digest": language}
    specification = {**SPECIFICATION, **changed, "update_rule": {"is": rule, "learning_rate": 0.001}}
    write_sealed(folder / "specification.json", specification, "specification.json")
    for step in steps:
        checkpoint = folder / "steps" / f"{step:06d}"
        checkpoint.mkdir(parents=True)
        weights = checkpoint / "model.safetensors"
        weights.write_bytes(b"weights")
        content = {
            "step": step,
            "training_loss": 2.5,
            "readings": {"lambda": 0.25},
            "versions": {"torch": "2.13.0", "threads": 1},
            "files": {weights.name: file_digest(weights)},
            "specification_digest": json_digest(specification),
        }
        write_sealed(checkpoint / "checkpoint.json", content, "checkpoint.json")
    for quantity, where, values in (
        ("masked_loss_sentence_averaged", "on-loss", loss),
        ("fisher_trace", "on-trace", trace),
    ):
        for step, sentences in (values or {}).items():
            write_measurement(folder, step, quantity, where, np.array(sentences, dtype=float), kept)
    return folder


def write_measurement(
    folder: Path, step: int, quantity: str, where: str, sentences: np.ndarray, kept: bool, task: str = ""
) -> None:
    """A record that is the mean of the sentences' values, which are stored beside it."""
    error = float(sentences.std(ddof=1) / len(sentences) ** 0.5)
    settings = {"step": step, "measured_on": where} | ({"task": task} if task else {})
    record = Record(quantity, float(sentences.mean()), "nats", error, len(sentences), settings=settings)
    values = {quantity: sentences} if kept else None
    measurements_at(folder, folder.name, step).write(where, [record], values)


def write_names(output: Path, experiment: str, runs: Mapping[str, str]) -> None:
    """An experiment's names for its runs, by folder."""
    content = {"name": experiment, "title": "", "runs": dict(runs)}
    write_sealed(output / "experiments" / f"{experiment}.json", content, experiment)
