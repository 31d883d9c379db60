"""Inner products of vectors of parameters, split by the part of the model."""

from collections.abc import Mapping

from torch import Tensor

from isoloss.curvature.parameter_groups import parameter_group


def inner_products_by_group(left: Mapping[str, Tensor], right: Mapping[str, Tensor]) -> dict[str, float]:
    """Σ left · right over each group's parameters, in float64."""
    products: dict[str, float] = {}
    for name, values in left.items():
        group = parameter_group(name)
        products[group] = products.get(group, 0.0) + float((values.double() * right[name]).sum())
    return products
