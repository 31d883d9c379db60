"""On how many sentences the measures of flatness that compete with the trace are taken, and how strong."""

from dataclasses import dataclass

from isoloss.curvature.ascent_sharpness import RADII
from isoloss.experiments.quantities.ascent_sharpness import AscentSharpnessQuantity, sam_column
from isoloss.experiments.quantities.gradient_norm import GradientNormQuantity
from isoloss.experiments.quantities.noise_sensitivity import NoiseSensitivityQuantity
from isoloss.experiments.quantities.normalised_trace import NormalisedTraceQuantity
from isoloss.experiments.quantities.top_eigenvalue import TopEigenvalueQuantity
from isoloss.experiments.quantity import Quantity


@dataclass(frozen=True)
class FlatnessSettings:
    """Sentences for each; `noises` are relative to the weights' deviation before pre-training."""

    trace_sentences: int
    gradient_sentences: int
    eigenvalue_sentences: int
    ascent_sentences: int
    noise_sentences: int
    radii: tuple[float, ...] = RADII
    noises: tuple[float, float, float] = (0.3, 1.0, 3.0)

    def competitors(self, seed: int) -> tuple[Quantity, ...]:
        """What the trace is held against as a measure of flatness."""
        return (
            NormalisedTraceQuantity(self.trace_sentences, seed),
            TopEigenvalueQuantity(self.eigenvalue_sentences, seed),
            GradientNormQuantity(self.gradient_sentences, seed),
            AscentSharpnessQuantity(self.ascent_sentences, seed, self.radii),
        )

    @property
    def competing_columns(self) -> tuple[str, ...]:
        """What the competitors are called in a table."""
        by_radius = tuple(map(sam_column, self.radii))
        return ("normalised_trace", "wholly_normalised_trace", "top_eigenvalue", "gradient_norm", *by_radius)

    def noise(self, seed: int) -> NoiseSensitivityQuantity:
        """Sensitivity to noise on the weights."""
        return NoiseSensitivityQuantity(self.noises, self.noise_sentences, seed)


SMOKE = FlatnessSettings(
    trace_sentences=16,
    gradient_sentences=16,
    eigenvalue_sentences=8,
    ascent_sentences=16,
    noise_sentences=16,
)
LAPTOP = FlatnessSettings(
    trace_sentences=500,
    gradient_sentences=300,
    eigenvalue_sentences=100,
    ascent_sentences=500,
    noise_sentences=300,
)
"""What a checkpoint can be given seconds for; the eigenvalue of 100 sentences has a standard error of 5 %."""

PAPER = FlatnessSettings(
    trace_sentences=10_000,
    gradient_sentences=10_000,
    eigenvalue_sentences=1_000,
    ascent_sentences=10_000,
    noise_sentences=10_000,
)
"""The paper measures no flatness but the trace, on 10,000 sentences; the eigenvalue's take twenty passes."""
