import polars as pl
import pytest
import torch

from isoloss.errors import BadInput
from isoloss.experiments.suite.lazy_to_rich import CLAIMS, DEVIATIONS, RICH, rule_of
from isoloss.models.transformers import PreLayerNormTransformer, laptop_shape


def run(rule: str, seed: int, loss: float, trace: float, accuracy: float) -> pl.DataFrame:
    losses = [2.0, 1.7, loss, loss]
    columns = {"loss": losses, "kl": [each - 1.4 for each in losses], "trace": trace, "accuracy": accuracy}
    counts = {f"{name}_error": 0.001 for name in columns} | {f"{name}_sentences": 50 for name in columns}
    told = {"run": f"{rule}-{seed}", "seed": seed, "rule": rule, "step": [1, 2, 4, 8]}
    return pl.DataFrame({**told, **columns, **counts})


@pytest.mark.parametrize("deviation", DEVIATIONS)
def test_weights_start_with_the_deviation_and_the_first_is_berts(deviation: float) -> None:
    model = PreLayerNormTransformer(laptop_shape(32), initial_deviation=deviation).build(8, 8, seed=0)
    matrices = [weight.detach().flatten() for weight in model.parameters() if weight.ndim == 2]
    assert float(torch.cat(matrices).std()) == pytest.approx(deviation, rel=0.05)
    with pytest.raises(BadInput, match="above 0"):
        PreLayerNormTransformer(laptop_shape(32), initial_deviation=0.0)


def test_every_claim_can_be_met_and_can_fail() -> None:
    rows = [(RICH, 20.0, 0.9), *((rule_of(each), 10.0, 0.95) for each in DEVIATIONS[1:])]
    met = [run(rule, seed, 1.403, trace, accuracy) for rule, trace, accuracy in rows for seed in (1, 2)]
    for claim in CLAIMS:
        assert claim.claimed.low < claim.statistic(met) < claim.claimed.high, claim.name
    losses = dict(zip([rule_of(each) for each in DEVIATIONS], (1.5, 1.45, 1.45), strict=True))
    against = [run(rule, 1, losses[rule], 400 / trace, 1 - accuracy / 2) for rule, trace, accuracy in rows]
    for claim in CLAIMS:
        assert not claim.claimed.low < claim.statistic(against) < claim.claimed.high, claim.name
