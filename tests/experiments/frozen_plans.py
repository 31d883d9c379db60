"""Digests of everything that an experiment plans and claims at each scale, and the file that holds them.

`python tests/experiments/frozen_plans.py` writes the file anew, where a plan or claim was changed on purpose.
"""

import hashlib
import json
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from isoloss.experiments.experiment import Experiment
from isoloss.experiments.planned_run import PlannedRun, quantity_digest

FROZEN = Path(__file__).with_name("frozen_plans.json")
digest_of = cache(quantity_digest)  # most runs of an experiment have the same quantities
SCALES = ("smoke", "laptop", "night", "gpu", "paper")


def frozen(experiment: Experiment) -> dict[str, str]:
    """Digests of its runs, of what is measured on each, of its references and of its claims as they read."""
    measured = [_measured(run) for run in experiment.runs]
    references = [[each.name, each.digest, each.judged, dict(each.labels)] for each in experiment.references]
    claims = [
        [c.name, c.sentence, c.paper, c.measure, c.unit, str(c.claimed), c.kind, c.reason, str(c.limit)]
        for c in experiment.claims
    ]
    parts = {
        "runs": [_run(run) for run in experiment.runs],
        "measured": measured,
        "references": references,
        "claims": claims,
    }
    return {name: hashlib.sha256(json.dumps(part).encode()).hexdigest()[:16] for name, part in parts.items()}


def _run(run: PlannedRun) -> list[Any]:
    origin = run.continues.run.digest if run.continues else None
    return [run.name, run.first_seed, run.digest, run.saturated_from, dict(run.labels), origin]


def _measured(run: PlannedRun) -> list[Any]:
    return sorted(
        [digest_of(each.quantity, run.language.digest, run.objective), each.weights, list(each.steps)]
        for each in run.measured
    )


def every_plan(suite: Iterable[Experiment]) -> dict[str, dict[str, str]]:
    """The digests of each experiment, by name."""
    return {each.name: frozen(each) for each in suite}


if __name__ == "__main__":
    from isoloss.experiments.design import every_experiment
    from isoloss.experiments.scale import scale_named

    plans = {scale: every_plan(every_experiment(scale_named(scale))) for scale in SCALES}
    FROZEN.write_text(json.dumps(plans, indent=1) + "\n")
