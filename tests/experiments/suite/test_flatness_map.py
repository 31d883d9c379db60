from itertools import product

import polars as pl
import pytest

from isoloss.experiments.equal_knowledge import POLISHED, STAGE
from isoloss.experiments.scale import scale_named
from isoloss.experiments.suite.flatness_map import AT, CLAIMS, ENTROPY, EXPERIMENT, PRICES, Priced
from isoloss.measurements.entropy import language_entropy
from isoloss.measurements.room_and_price import price


def frames(points: dict[str, float]) -> list[pl.DataFrame]:
    """A polished model per language, seed and branch, whose accuracy changes by so many points a doubling."""
    branches = (("flattened", 0.0), ("noise switched off", 1.5), ("sharpened", 2.5))
    found = []
    for name, seed, (branch, doublings) in product(points, (1, 2, 3), branches):
        told = {"run": f"{name}-{seed}-{branch}", "language": name, "width": 48, "seed": seed}
        told |= {STAGE: POLISHED, "branch": branch, "trace": 2.0 ** (4 + doublings), "kl": 5e-6}
        accuracy = 0.8 + seed / 50 + points[name] * doublings / 100
        found.append(pl.DataFrame([{**told, "accuracy": accuracy}]))
    return found


def test_effects_are_those_of_each_language() -> None:
    runs = frames({PRICES[0].name: -2.0, PRICES[2].name: 7.0, PRICES[-1].name: 0.25})
    at_price, at_none, between = (claim.statistic(runs) for claim in CLAIMS[-3:])
    assert (at_price, at_none, between) == pytest.approx((0.25, -2.0, -2.25))
    for claim, value in zip(CLAIMS[-3:], (at_price, at_none, between), strict=True):
        assert claim.claimed.low < value < claim.claimed.high
    against = frames({PRICES[0].name: 0.1, PRICES[-1].name: -1.0})
    for claim in CLAIMS[-3:]:
        assert not claim.claimed.low < claim.statistic(against) < claim.claimed.high


@pytest.mark.thorough
@pytest.mark.parametrize(
    "priced", [*(pytest.param(each, marks=pytest.mark.thorough) for each in PRICES[:-1]), PRICES[-1]]
)
def test_prices_and_entropies_are_those_of_the_languages(priced: Priced) -> None:
    language = priced.language
    found = price(language, language.tasks()[0])
    assert found is not None
    assert found.value == pytest.approx(priced.price, rel=0.01, abs=1e-9)
    entropy = language_entropy(language, 4000, seed=1)[0]
    assert abs(entropy.value - priced.entropy) < 5 * (entropy.standard_error or 0)


def test_every_language_is_trained_alike_and_sharpened_as_far_above_its_entropy() -> None:
    for name, languages in (("laptop", 2), ("night", 5)):
        as_in, seeds = AT[name], EXPERIMENT.seeds[name]
        runs = EXPERIMENT.at(scale_named(name)).runs
        assert len(runs) == languages * len(seeds) * len(as_in.architectures) * 7
        assert len({run.language.digest for run in runs}) == languages
    window = PRICES[0].models(AT["laptop"]).sharpened.loss_window
    before = AT["laptop"].sharpened.loss_window
    assert [b - PRICES[0].entropy for b in window] == pytest.approx([b - ENTROPY for b in before])
