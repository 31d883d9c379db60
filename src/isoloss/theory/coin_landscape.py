"""Figure 11's picture, computed: one coin's loss over (u, v), its minimisers, SGD's drift and the flow's."""

import numpy as np
import polars as pl
import torch
from jaxtyping import Float
from torch import Tensor

from isoloss.errors import BadInput
from isoloss.panels import Axis, Colour, Landscape, Panel
from isoloss.theory.coin_flow import BiasedCoin
from isoloss.theory.sgd_paths import SGDSettings, sgd_paths
from isoloss.theory.softmax_model import Coin

CELLS = 80
POINTS = 200


def coin_landscape(coin: BiasedCoin, difference: float, settings: SGDSettings) -> Panel:
    """A heat map of L(u, v) - min L; over it Γ, equation (1), one run of SGD, and the flattest point.

    Both paths start at the minimiser with u² - v² = `difference` > 0 and go on for four times the decay
    time of u² - v². Raises BadInput unless the coin prefers heads, where both coordinates are positive.
    """
    if coin.heads <= 0.5:
        raise BadInput(f"the picture needs a coin that prefers heads, not one of {coin.heads:g}")
    end = 4 / coin.decay_rate(settings.batch_size)
    times = [end * point / POINTS for point in range(POINTS + 1)]
    start = coin.minimiser(difference)
    runs = sgd_paths(Coin(), coin.laws, start, settings, times)
    run = torch.stack([at[0] for at in runs])
    reach = 1.15 * max(float(start.max()), float(run.max()))
    u = torch.linspace(coin.logit / reach, reach, POINTS, dtype=torch.float64)
    lines = {
        "minimisers: uv = logit p": torch.stack([u, coin.logit / u], dim=1),
        "equation (1)": torch.stack([coin.flow(difference, t, settings.batch_size) for t in times]),
        f"one run of SGD, η = {settings.learning_rate:g}": run,
        "flattest minimiser: u = v": torch.full((1, 2), coin.logit**0.5, dtype=torch.float64),
    }
    return Panel(
        name="coin-landscape",
        title="Which minimum does implicit bias lead to? (Figure 11, left), computed",
        caption=(
            f"The loss of one coin, p = {coin.heads:g}, over (u, v) less its minimum. Once on the curve of "
            "minimisers SGD drifts along it to the flattest one, as the flow of the trace does."
        ),
        charts=(
            Landscape(
                Axis("u", "u"),
                Axis("v", "v"),
                Axis("height", "loss - minimum (nats)"),
                Colour("series", "path"),
            ),
        ),
        data=pl.concat([_grid(coin, reach), *(_line(name, path) for name, path in lines.items())]),
    )


def _grid(coin: BiasedCoin, reach: float) -> pl.DataFrame:
    centres = (np.arange(CELLS) + 0.5) * reach / CELLS
    u, v = (side.ravel() for side in np.meshgrid(centres, centres))
    logits = torch.vmap(Coin().logits)(torch.from_numpy(np.stack([u, v], axis=1)))
    height = torch.vmap(coin.laws.kl)(logits)
    return pl.DataFrame({"u": u, "v": v, "height": height.numpy(), "series": ["loss"] * len(u)})


def _line(name: str, path: Float[Tensor, "n 2"]) -> pl.DataFrame:
    heights = pl.Series([None] * len(path), dtype=pl.Float64)
    return pl.DataFrame(
        {"u": path[:, 0].numpy(), "v": path[:, 1].numpy(), "height": heights, "series": [name] * len(path)}
    )
