"""The sentences' gradients of one parameter, as its uses come in during a backward pass."""

from torch import Tensor

from isoloss.curvature.gradient_factors import Factors, Sums, squared_norms


class GatheredGradient:
    """Waits for the factors of all uses of one parameter, norms them, and lets them go.

    `norms`, float64, stays None until all have come: for good, where one could not be told apart by sentence.
    """

    def __init__(self, shape: tuple[int, ...], uses: int, memory_bytes: int) -> None:
        self.norms: Tensor | None = None
        self._shape = shape
        self._awaited = uses
        self._memory_bytes = memory_bytes
        self._factors: list[Factors] = []

    def receive(self, factors: Factors | None) -> None:
        """One use's factors, or None where the use turned out not to be understood."""
        if factors is None:
            return
        if isinstance(factors, Sums) and factors.values.shape[1:] != self._shape:
            return  # one number for all of a vector: its gradient is added up further
        self._factors.append(factors)
        if len(self._factors) == self._awaited:
            self.norms = squared_norms(self._factors, self._shape, self._memory_bytes)
            self._factors = []
