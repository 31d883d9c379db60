"""The local learning coefficient beside devinterp: `python -m benchmarks.learning_coefficient [--json]`.

One thread, one process, one model: that of `benchmarks.spectrum`, trained for longer, in float32. Both have
chains of 100 steps that do not count and 200 that do, with the same temperature, step and localisation, and
batches of all 32 sentences: the numbers are to agree within their errors, and time per step is compared.

The peer is devinterp's `SGMCMC.sgld`, driven as its own sampler drives it, but without the steps before the
chain has settled, which devinterp counts. Without the package the library's own number is shown.
"""

import argparse
import importlib.util
import json
from copy import deepcopy
from dataclasses import asdict, dataclass
from time import process_time

import torch
from torch import nn

from benchmarks.spectrum import trained
from benchmarks.trace_estimators import OBJECTIVE
from isoloss.curvature.local_learning_coefficient import local_learning_coefficient
from isoloss.objectives.batch import Batch, sentence_averaged_loss
from isoloss.results.estimate import Estimate, sample_mean

BURN_IN, DRAWS = 100, 200


@dataclass(frozen=True)
class Row:
    """The mean over chains with its standard error, and milliseconds of the processor per step."""

    name: str
    localisation: float
    value: float
    standard_error: float
    step_ms: float

    @staticmethod
    def of(name: str, localisation: float, found: Estimate, seconds: float, chains: int) -> "Row":
        steps = chains * (BURN_IN + DRAWS)
        return Row(name, localisation, found.value, found.standard_error, 1000 * seconds / steps)


def beside_each_other(model: nn.Module, batch: Batch, localisation: float, chains: int) -> list[Row]:
    """Both, at the step that the library chooses; finding it is part of the library's time."""
    start = process_time()
    found = local_learning_coefficient(
        model, [batch], OBJECTIVE, chains=chains, burn_in=BURN_IN, draws=DRAWS, localisation=localisation
    )
    rows = [Row.of("isoloss", localisation, found.estimate, process_time() - start, chains)]
    if importlib.util.find_spec("devinterp") is not None:
        start = process_time()
        of_each = [
            peer_chain(model, batch, chain, found.step, found.inverse_temperature, localisation)
            for chain in range(chains)
        ]
        estimate = sample_mean(torch.tensor(of_each, dtype=torch.float64))
        rows.append(Row.of("devinterp", localisation, estimate, process_time() - start, chains))
    return rows


def peer_chain(
    model: nn.Module, batch: Batch, seed: int, step: float, inverse_temperature: float, localisation: float
) -> float:
    """nβ (mean loss of a chain - loss at its start)."""
    from devinterp.optim.sgmcmc import SGMCMC

    moved = deepcopy(model)
    sampler = SGMCMC.sgld(moved.parameters(), lr=step, nbeta=inverse_temperature, localization=localisation)
    torch.manual_seed(seed)
    losses = []
    for _ in range(BURN_IN + DRAWS):
        loss = sentence_averaged_loss(OBJECTIVE.logits(moved, batch), batch)
        loss.backward()
        losses.append(loss.item())
        sampler.step()
        sampler.zero_grad()
    return inverse_temperature * (sum(losses[BURN_IN:]) / DRAWS - losses[0])


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--json", action="store_true")
    options.add_argument("--chains", type=int, default=8)
    options.add_argument("--steps", type=int, default=400, help="training steps of the model")
    arguments = options.parse_args()
    torch.set_num_threads(1)
    model, batch = trained(arguments.steps)
    rows = [
        row
        for localisation in (30.0, 300.0)
        for row in beside_each_other(model, batch, localisation, arguments.chains)
    ]
    if arguments.json:
        print(json.dumps([asdict(row) for row in rows], indent=2))
        return
    for row in rows:
        print(
            f"{row.name:12} γ = {row.localisation:<5g} {row.value:8.3f} ± {row.standard_error:.3f}"
            f"{row.step_ms:8.2f} ms a step"
        )


if __name__ == "__main__":
    main()
